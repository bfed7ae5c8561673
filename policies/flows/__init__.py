"""What a JobFlow says and may say: its spec, its graph, its rules, its words, and how patches change templates. Pure; admission
refuses by it, the flow controller decides by it, `fedctl` draws by it."""
