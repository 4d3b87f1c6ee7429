/*
 * MPI's all-reduce of BYTES, five times: `allreduce BYTES`, on hosts of gradwire. The first rank reports the slowest rank's time of each, and that time
 * over a ring's ideal, in which every host sends 2(n-1)/n of the bytes at what TCP can carry of its line; it prints the median of these.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 5 };

static int by_size(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
	double bytes = atof(argv[1]), payload_bps = atof(getenv("GRADWIRE_PAYLOAD_BPS")), took_s[REPETITIONS], begin_s, ideal_s;
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
	ideal_s = 2.0 * (ranks - 1) / ranks * bytes * 8 / payload_bps;
	if (rank == 0) {
		FILE *figures = fopen(getenv("GRADWIRE_FIGURES"), "a");
		for (int i = 0; i < REPETITIONS; i++)
			fprintf(figures, "{\"size_bytes\": %.0f, \"time_s\": %.9f, \"ratio\": %.6f}\n", bytes, took_s[i], took_s[i] / ideal_s);
		fclose(figures);
	}
	qsort(took_s, REPETITIONS, sizeof(double), by_size);
	if (rank == 0)
		printf("%.5f\n", sums[count - 1] == ranks ? took_s[REPETITIONS / 2] / ideal_s : -1);
	MPI_Finalize();
	return 0;
}
