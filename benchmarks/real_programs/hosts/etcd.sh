# Three members of a cluster and a client, which puts and gets a key at the leader and at a follower.
set -e
set -- $GRADWIRE_HOSTS
if [ "$GRADWIRE_HOST" != "$4" ]; then
  timeout --signal KILL 20 etcd --name "$GRADWIRE_HOST" --data-dir "$TMPDIR/etcd" --log-level error \
    --listen-peer-urls http://0.0.0.0:2380 --initial-advertise-peer-urls "http://$GRADWIRE_HOST:2380" \
    --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls "http://$GRADWIRE_HOST:2379" \
    --initial-cluster "$1=http://$1:2380,$2=http://$2:2380,$3=http://$3:2380" >/dev/null 2>&1 || true
  exit 0
fi
export ETCDCTL_API=3
sleep 5
for member in "$1" "$2" "$3"; do
  # The fifth field says whether it leads.
  if etcdctl --endpoints "http://$member:2379" endpoint status | cut -d, -f5 | grep -q true; then leader=$member; else follower=$member; fi
done
for role in leader follower; do
  python3 "$SCRIPTS/timed.py" "put at the $role" etcdctl --endpoints "http://${!role}:2379" put key value
done
python3 "$SCRIPTS/timed.py" "read without the others" etcdctl --endpoints "http://$follower:2379" get --consistency=s key
