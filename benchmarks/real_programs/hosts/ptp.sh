# PTP with timestamps of software: one host is the clock, the other measures the way's delay. All hosts have one clock, so that nothing
# is set.
set -e
first=${GRADWIRE_HOSTS%% *}
priority=200
[ "$GRADWIRE_HOST" = "$first" ] && priority=10
timeout 30 ptp4l -S -m -i "$GRADWIRE_HOST-eth0" --free_running=1 --summary_interval=-4 --priority1=$priority >"$TMPDIR/log" 2>&1 || test $? = 124
cat "$TMPDIR/log" >&2
[ "$GRADWIRE_HOST" = "$first" ] && exit 0
awk '/master offset/ {delay = $NF} END {if (delay != "") printf "RESULT path delay %.9f\n", delay / 1e9}' "$TMPDIR/log"
