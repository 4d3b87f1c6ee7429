/*
 * Two ranks of MPI: `pingpong BYTES REPETITIONS [stream]`. A message goes there and back, REPETITIONS times, and the first rank prints half of what that
 * takes in microseconds; with `stream`, the first rank sends messages that are answered at the end alone, and prints MiB per second.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 10, WINDOW = 16 };

static void there_and_back(char *buffer, int size_bytes, int rank)
{
	if (rank == 0)
		MPI_Send(buffer, size_bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
	MPI_Recv(buffer, size_bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Send(buffer, size_bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

static void stream(char *buffer, int size_bytes, int repetitions, int rank)
{
	MPI_Request requests[WINDOW];

	for (int i = 0; i < repetitions; i++) {
		if (i >= WINDOW)
			MPI_Wait(&requests[i % WINDOW], MPI_STATUS_IGNORE);
		if (rank == 0)
			MPI_Isend(buffer, size_bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[i % WINDOW]);
		else
			MPI_Irecv(buffer, size_bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[i % WINDOW]);
	}
	MPI_Waitall(repetitions < WINDOW ? repetitions : WINDOW, requests, MPI_STATUSES_IGNORE);
	there_and_back(buffer, 1, rank);
}

int main(int argc, char **argv)
{
	int size_bytes = atoi(argv[1]), repetitions = atoi(argv[2]), rank;
	char *buffer = calloc(size_bytes, 1);
	double begin_s, took_s;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < WARM_UP; i++)
		there_and_back(buffer, size_bytes, rank);
	begin_s = MPI_Wtime();
	if (argc > 3)
		stream(buffer, size_bytes, repetitions, rank);
	else
		for (int i = 0; i < repetitions; i++)
			there_and_back(buffer, size_bytes, rank);
	took_s = MPI_Wtime() - begin_s;
	if (rank == 0 && argc > 3)
		printf("%.2f\n", (double)size_bytes * repetitions / took_s / (1 << 20));
	else if (rank == 0)
		printf("%.4f\n", took_s / repetitions / 2 * 1e6);
	MPI_Finalize();
	return 0;
}
