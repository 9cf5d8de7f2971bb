"""A real nginx on a free port of loopback, with the configuration that docs/howto/serve-over-tls.md tells people."""

import asyncio
import datetime
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve-over-tls.md"
HOST = "chat.example.org"
BLOCK = re.compile(r"```nginx\n(.*?)```", re.DOTALL)

FRAME = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {blocks}
}}
"""


def configuration(folder: Path, port: int, upstream: str) -> str:
    """What the page says, with a free port, our certificate and our server."""
    server, zone = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    changes = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        f"/etc/letsencrypt/live/{HOST}/fullchain.pem": str(folder / "cert.pem"),
        f"/etc/letsencrypt/live/{HOST}/privkey.pem": str(folder / "key.pem"),
        "http://127.0.0.1:7420": upstream,
    }
    for told, here in changes.items():
        assert told in server, f"the page does not say {told!r}"
        server = server.replace(told, here)
    return FRAME.format(folder=folder, blocks=zone + server)


def make_certificate(folder: Path) -> None:
    """Signed by itself, for the name that people use; good for a day of the test's own clock."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


@asynccontextmanager
async def nginx(folder: Path, upstream: str) -> AsyncIterator[int]:
    """Its port, once it listens."""
    program = shutil.which("nginx")
    assert program is not None, "make test-proxy needs nginx on PATH (Debian: apt install nginx-light)"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    make_certificate(folder)
    (folder / "nginx.conf").write_text(configuration(folder, port, upstream), encoding="utf-8")
    command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await _listens(process, port, folder)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listens(process: asyncio.subprocess.Process, port: int, folder: Path) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            ended = await _ended(process)
            assert not ended, (folder / "error.log").read_text(encoding="utf-8")
        else:
            writer.close()
            await writer.wait_closed()
            return


async def _ended(process: asyncio.subprocess.Process) -> bool:
    """Whether it has ended, after a moment in which it may."""
    await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.05)
    return process.returncode is not None
