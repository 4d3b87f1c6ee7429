"""QUIC over a line that loses packets: everything arrives whole. It needs aioquic: pip install aioquic.

pytest examples/labs/test_quic.py
"""

import datetime
import hashlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("aioquic", reason="aioquic is not installed: pip install aioquic")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEER = Path(__file__).with_name("quic_peer.py")
CONTENT = bytes(range(256)) * 1600


def certificate(folder):
    """A certificate for the host called server, valid at the lab's date, which is 2025-01-01 at each boot."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    boot = datetime.datetime(2025, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(boot - datetime.timedelta(days=1))
        .not_valid_after(boot + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("server")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "certificate.pem", folder / "key.pem"


def test_a_lossy_line_delivers_the_same_bytes_later(gradwire_lab, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    made, key = certificate(tmp_path)
    times_s = {}
    for loss in (0, "10%"):
        net = gradwire_lab()
        client, server, s1 = net.host("client"), net.host("server"), net.switch()
        net.link(server, s1, rate="100mbit", delay="5ms")
        net.link(client, s1, rate="100mbit", delay="5ms", loss=loss)
        server.start([sys.executable, str(PEER), "serve", str(made), str(key), str(tmp_path / "file")])
        net.sleep("1s")
        result = client.run([sys.executable, str(PEER), "fetch", str(made), "server"], check=True)
        assert result.stdout.split() == [str(len(CONTENT)), hashlib.sha256(CONTENT).hexdigest()]
        times_s[loss] = result.duration_s
    print(", ".join(f"{loss} loss: {time_s:.3f} s" for loss, time_s in times_s.items()))
    assert times_s["10%"] > times_s[0]
