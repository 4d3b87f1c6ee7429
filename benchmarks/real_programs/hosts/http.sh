# nginx and curl: a file of 150 MB.
set -e
first=${GRADWIRE_HOSTS%% *}
if [ "$GRADWIRE_HOST" = "$first" ]; then
  mkdir -p "$TMPDIR/served" "$TMPDIR/log"
  head -c 150000000 /dev/zero >"$TMPDIR/served/file"
  cat >"$TMPDIR/nginx.conf" <<NGINX
pid $TMPDIR/pid;
daemon off;
user root;
error_log /dev/null;
events {}
http {
  access_log off;
  sendfile on;
  client_body_temp_path $TMPDIR/log;
  proxy_temp_path $TMPDIR/log;
  fastcgi_temp_path $TMPDIR/log;
  uwsgi_temp_path $TMPDIR/log;
  scgi_temp_path $TMPDIR/log;
  server {
    listen 8000;
    root $TMPDIR/served;
  }
}
NGINX
  timeout 4 /usr/sbin/nginx -p "$TMPDIR" -e /dev/null -c "$TMPDIR/nginx.conf" || test $? = 124
  exit 0
fi
sleep 1
python3 "$SCRIPTS/timed.py" file curl --silent --fail --output /dev/null "http://$first:8000/file"
