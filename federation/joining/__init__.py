"""Who becomes a member: requests for certificates are judged here, and tokens are spent.

Belongs here: CertificateSigningRequests of agents, bootstrap tokens. Not here: what a member may do once it is one
(`clusters.rights`), registration and health (`clusters`). Invariant: of all requests by one
token at most one is ever approved; the token is deleted soon after that one is signed, when the member has had time to read it.
"""
