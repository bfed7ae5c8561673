"""The hub's end of the channel (protocol.md 8): agents dial in here, people read logs here, and steps are probed from here.

Every replica serves, none leads: a replica asks members over the connections that it holds itself. Nothing is kept; nothing is
written but reviews of tokens and of rights. What agents send is bound to the member that their certificate names and is cleaned
before anybody sees it; what people ask is first held against their rights.
"""
