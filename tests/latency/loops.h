// Loops in which the host reads values of the GPU, gets its next batch, or launches what it has
// never launched before.
#pragma once
#include "job.h"

// Reads a value behind the backward pass and another behind the update, then gets the next batch
// before each so-manieth step, which takes `us`.
void reads_two_values(Job& job, int steps, void* value, int every, int us);
// Reads a value behind each of so many micro-batches of a step, and then does something for `us`.
void reads_after_each_batch(Job& job, int steps, void* value, int batches, int us);
// Reads a value behind each step, and begins the next one with a kernel that none had before.
void uses_new_code(Job& job, int steps, void* value);
// Does something for `us` before it launches each step, and reads a value behind each so-manieth.
void prepares(Job& job, int steps, void* value, int every, int us);
// Never reads one, and each step has another grid.
void prepares_other_work(Job& job, int steps, int us);
// Reads a value behind each step, and then does something for `us` after each sixth.
void reads_and_pauses(Job& job, int steps, void* value, int us);
