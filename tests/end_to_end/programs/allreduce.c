/* MPI's all-reduce of BYTES: `allreduce BYTES BITS_PER_S` prints the slowest rank's median of 5 times over a ring's ideal time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 5 };
static const double PAYLOAD_SHARE = 1448.0 / 1538;

static int by_size(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
	double bytes = atof(argv[1]), rate_bps = atof(argv[2]), took_s[REPETITIONS], begin_s, ideal_s;
	int count = (int)(bytes / sizeof(float)), ranks, rank;
	float *gradients = calloc(count, sizeof(float)), *sums = calloc(count, sizeof(float));

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	gradients[count - 1] = 1;
	for (int i = 0; i < REPETITIONS; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		begin_s = MPI_Wtime();
		MPI_Allreduce(gradients, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		took_s[i] = MPI_Wtime() - begin_s;
	}
	MPI_Allreduce(MPI_IN_PLACE, took_s, REPETITIONS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(took_s, REPETITIONS, sizeof(double), by_size);
	ideal_s = 2.0 * (ranks - 1) / ranks * bytes * 8 / rate_bps / PAYLOAD_SHARE;
	if (rank == 0)
		printf("%.5f\n", sums[count - 1] == ranks ? took_s[REPETITIONS / 2] / ideal_s : -1);
	MPI_Finalize();
	return 0;
}
