# JAX on every host: all-reduces over Gloo.
set -e
export XLA_FLAGS=--xla_cpu_multi_thread_eigen=false
exec "$PYTHON" "$SCRIPTS/jax_sum.py"
