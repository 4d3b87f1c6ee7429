# nginx and curl: a file of 150 MB.
set -e
first=${GRADWIRE_HOSTS%% *}
if [ "$GRADWIRE_HOST" = "$first" ]; then
  mkdir -p "$TMPDIR/served" "$TMPDIR/log"
  head -c 150000000 /dev/zero >"$TMPDIR/served/file"
  printf 'pid %s/pid; daemon off; user root; error_log /dev/null; events {} http { access_log off; sendfile on; client_body_temp_path %s/log; proxy_temp_path %s/log; fastcgi_temp_path %s/log; uwsgi_temp_path %s/log; scgi_temp_path %s/log; server { listen 8000; root %s/served; } }' \
    "$TMPDIR" "$TMPDIR" "$TMPDIR" "$TMPDIR" "$TMPDIR" "$TMPDIR" "$TMPDIR" >"$TMPDIR/nginx.conf"
  timeout 4 /usr/sbin/nginx -p "$TMPDIR" -e /dev/null -c "$TMPDIR/nginx.conf" || test $? = 124
  exit 0
fi
sleep 1
python3 "$SCRIPTS/timed.py" file curl --silent --fail --output /dev/null "http://$first:8000/file"
