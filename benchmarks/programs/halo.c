/* A halo exchange on a ring of ranks: each sends to both neighbours and receives from both, STEPS times, BYTES each.
   Rank 0 prints the time of a step. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int rank, size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int steps = atoi(argv[1]), bytes = atoi(argv[2]);
	int left = (rank + size - 1) % size, right = (rank + 1) % size;
	char *halo = calloc(4, bytes);
	MPI_Request open[4];
	MPI_Barrier(MPI_COMM_WORLD);
	double begin_s = MPI_Wtime();
	for (int step = 0; step < steps; step++) {
		MPI_Irecv(halo, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &open[0]);
		MPI_Irecv(halo + bytes, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &open[1]);
		MPI_Isend(halo + 2 * bytes, bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, &open[2]);
		MPI_Isend(halo + 3 * bytes, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &open[3]);
		MPI_Waitall(4, open, MPI_STATUSES_IGNORE);
	}
	if (rank == 0)
		printf("measured %.4f ms\n", (MPI_Wtime() - begin_s) / steps * 1e3);
	MPI_Finalize();
	return 0;
}
