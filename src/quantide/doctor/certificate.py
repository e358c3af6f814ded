"""A certificate and its key, tried as a server would: a handshake in memory, with nobody on the other side."""

import ssl


def days_left(cert: str, key: str, now: float) -> float:
    """For how many more days a certificate holds; an SSLError when it and the key cannot be used together."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key, password=_no_password)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.load_verify_locations(cert)  # who signed it does not matter here
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        found = _handshake(serving, asking)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == 10:  # it has expired
            return -1.0
        raise
    return (ssl.cert_time_to_seconds(str(found["notAfter"])) - now) / 86_400


def _handshake(serving: ssl.SSLContext, asking: ssl.SSLContext) -> dict[str, object]:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there)
    server = serving.wrap_bio(there, back, server_side=True)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        found = client.getpeercert() if client.version() and client.cipher() else None
        if found:
            return dict(found)
    raise ssl.SSLError("the handshake does not end")


def _no_password() -> str:
    raise ValueError("the key has a password, and nobody is there to type it")
