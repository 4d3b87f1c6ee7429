# redis-benchmark: 1,000 requests one after the other, and a value of 150 MB.
set -e
first=${GRADWIRE_HOSTS%% *}
if [ "$GRADWIRE_HOST" = "$first" ]; then
  cd "$TMPDIR"
  timeout 8 redis-server --save "" --appendonly no --protected-mode no --loglevel warning || test $? = 124
  exit 0
fi
sleep 1
head -c 150000000 /dev/zero >"$TMPDIR/file"
python3 "$SCRIPTS/timed.py" requests redis-benchmark -h "$first" -n 1000 -c 1 -t ping_mbulk -q
redis-cli -h "$first" -x set file <"$TMPDIR/file" >/dev/null
python3 "$SCRIPTS/timed.py" file redis-cli -h "$first" get file
