# gRPC: a client of the second host asks a server on the first one.
set -e
first=${GRADWIRE_HOSTS%% *}
test "$GRADWIRE_HOST" = "$first" && role=serves || role=asks
exec "$PYTHON" "$SCRIPTS/grpc_streams.py" $role "$first:50051"
