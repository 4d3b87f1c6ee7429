"""An HTTP server on a line that loses packets: everything arrives whole, only later.

pytest examples/labs/test_http_under_loss.py
"""

import hashlib
import shutil
import sys

import pytest

SIZE_BYTES = 600_000


def download(net, folder, loss):
    """How long curl takes for a file, and the file's digest."""
    client, server, s1 = net.host("client"), net.host("server"), net.switch()
    net.link(server, s1, rate="100mbit", delay="5ms")
    net.link(client, s1, rate="100mbit", delay="5ms", loss=loss)
    server.start([sys.executable, "-m", "http.server", "80", "--directory", str(folder)])
    net.sleep("1s")
    result = client.run("curl --silent --show-error --fail http://server/file | sha256sum", check=True)
    return result.duration_s, result.stdout.split()[0]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_lossy_line_delivers_the_same_bytes_later(gradwire_lab, tmp_path):
    content = bytes(range(256)) * (SIZE_BYTES // 256)
    (tmp_path / "file").write_bytes(content)
    clean_s, clean = download(gradwire_lab(), tmp_path, loss=0)
    lossy_s, lossy = download(gradwire_lab(), tmp_path, loss="5%")
    print(f"{clean_s:.3f} s without loss, {lossy_s:.3f} s with 5 %")
    assert clean == lossy == hashlib.sha256(content).hexdigest()
    assert lossy_s > 1.5 * clean_s


@pytest.mark.skipif(not shutil.which("nginx") or not shutil.which("wrk"), reason="nginx or wrk is not installed")
def test_nginx_answers_every_request_under_loss(gradwire_lab, tmp_path):
    (tmp_path / "index.html").write_text("hello\n")
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off; worker_processes 1; pid /run/tmp/nginx.pid; error_log stderr; user root;\n"
        f"events {{}} http {{ access_log off; client_body_temp_path /run/tmp/b; proxy_temp_path /run/tmp/p;\n"
        f"fastcgi_temp_path /run/tmp/f; uwsgi_temp_path /run/tmp/u; scgi_temp_path /run/tmp/s;\n"
        f"server {{ listen 80; root {tmp_path}; }} }}\n"
    )
    net = gradwire_lab()
    client, server, s1 = net.host("client"), net.host("server"), net.switch()
    net.link(server, s1, rate="100mbit", delay="5ms")
    net.link(client, s1, rate="100mbit", delay="5ms", loss="1%")
    server.start(f"nginx -c {configuration}")
    net.sleep("1s")
    result = client.run("wrk -t 1 -c 4 -d 2 http://server/index.html", check=True)
    print(result.stdout)
    assert "Non-2xx" not in result.stdout
    assert int(result.stdout.split(" requests in ")[0].split()[-1]) > 100
