"""New key pairs for ssh. For the shell: what it returns is chance."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from member_agent.jobs.plugins.protocol import KeyPair

BITS: Final = 2048
EXPONENT: Final = 65537


def new_key_pair() -> KeyPair:
    """An RSA pair as `ssh-keygen -m PEM` writes it; takes some tenths of a second."""
    key = rsa.generate_private_key(public_exponent=EXPONENT, key_size=BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private=private.decode(), public=public.decode() + "\n")
