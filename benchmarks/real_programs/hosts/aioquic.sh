# QUIC by aioquic: the second host asks the first one for 15 MB on one stream.
set -e
first=${GRADWIRE_HOSTS%% *}
test "$GRADWIRE_HOST" = "$first" && role=serves || role=asks
exec "$PYTHON" "$SCRIPTS/aioquic_file.py" $role "$first" "$KEYS"
