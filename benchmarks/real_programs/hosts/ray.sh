# Ray: the second host joins the first one's cluster, and a program there calls an actor on it.
set -e
set -- $GRADWIRE_HOSTS
ray() { "$PYTHON" -m ray.scripts.scripts "$@"; }
export HOME=$TMPDIR RAY_USAGE_STATS_ENABLED=0
options="--num-cpus 1 --object-store-memory 600000000 --disable-usage-stats --node-ip-address $GRADWIRE_ADDRESS"
if [ "$GRADWIRE_HOST" = "$1" ]; then
  ray start --head --port 6379 --include-dashboard=false --temp-dir "$TMPDIR/ray" $options >/dev/null 2>&1
  "$PYTHON" "$SCRIPTS/ray_objects.py"
  ray stop --force >/dev/null 2>&1
  exit 0
fi
sleep 2
ray start --address "$1:6379" $options --block >/dev/null 2>&1 || true
