# Two NATS servers that are joined; a client of the one asks, and sends to, a client of the other.
set -e
set -- $GRADWIRE_HOSTS
case $GRADWIRE_HOST in
"$1" | "$2")
  timeout 6 nats-server -a 0.0.0.0 --cluster_name joined --cluster nats://0.0.0.0:6222 --routes "nats://$1:6222" -l /dev/null || test $? = 124
  ;;
"$3") exec "$PYTHON" "$SCRIPTS/nats_talk.py" asks "$1" ;;
"$4") exec "$PYTHON" "$SCRIPTS/nats_talk.py" answers "$2" ;;
esac
