/*
 * What the preloaded library (waits.c) and the stand-in tell each other, so that threads that find nothing sleep until something happened.
 *
 * Both are in one process, and the stand-in works without the other one: its threads then yield and look again.
 */
#ifndef GRADWIRE_WAITS_H
#define GRADWIRE_WAITS_H

/* Wakes threads of the library that found nothing: a stream's thread has done something. */
extern void waits_done(void) __attribute__((weak));
/* Names the function that a thread calls before it sleeps: streams' threads are to look at what it wrote. */
extern void waits_watch(void (*look)(void)) __attribute__((weak));
#endif
