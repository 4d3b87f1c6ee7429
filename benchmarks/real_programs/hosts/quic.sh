# HTTP/3 by ngtcp2: a download of 15 MB.
set -e
first=${GRADWIRE_HOSTS%% *}
if [ "$GRADWIRE_HOST" = "$first" ]; then
  mkdir -p "$TMPDIR/served"
  head -c 15000000 /dev/zero >"$TMPDIR/served/file"
  PATH=$PATH:/usr/sbin timeout 3 gtlsserver -q -d "$TMPDIR/served" 0.0.0.0 4433 "$KEYS/tls.key" "$KEYS/tls.crt" || test $? = 124
  exit 0
fi
sleep 1
PATH=$PATH:/usr/sbin python3 "$SCRIPTS/timed.py" file gtlsclient -q --exit-on-all-streams-close "$first" 4433 "https://$first/file"
