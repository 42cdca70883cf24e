/* The peer of `call_cost launch`: a loop with two events of LTTng-UST.   lttng_cost [THREADS=1]
 * [CALLS=2000000] */
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "lttng_events.h"

static long calls = 2000000;
static pthread_barrier_t start;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void events(long count) {
  for (long i = 0; i < count; ++i) {
    tracepoint(traintrace_bench, launch_enter, (const void*)events, 128, 256, 0, (const void*)0x10);
    tracepoint(traintrace_bench, launch_leave, 0);
  }
}

static void* worker(void* ns) {
  events(1000);
  pthread_barrier_wait(&start);
  const double begin = now_ns();
  events(calls);
  *(double*)ns = now_ns() - begin;
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  double best = 1e99, ns[64];
  pthread_t ids[64];
  if (argc > 2) {
    calls = atol(argv[2]);
  }
  if (threads < 1 || threads > 64) {
    return 2;
  }
  for (int round = 0; round < 5; ++round) {
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    double slowest = 0;
    for (int i = 0; i < threads; ++i) {
      pthread_create(&ids[i], NULL, worker, &ns[i]);
    }
    for (int i = 0; i < threads; ++i) {
      pthread_join(ids[i], NULL);
      slowest = ns[i] > slowest ? ns[i] : slowest;
    }
    best = slowest < best ? slowest : best;
  }
  printf("%.2f\n", best / (double)calls);
  return 0;
}
