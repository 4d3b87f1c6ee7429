# torchrun on every host: FSDP2 over Gloo.
set -e
first=${GRADWIRE_HOSTS%% *}
set -- $GRADWIRE_HOSTS
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=$GRADWIRE_HOST-eth0
exec "$PYTHON" -m torch.distributed.run --nnodes $# --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint "$first:29500" "$SCRIPTS/fsdp_llama.py"
