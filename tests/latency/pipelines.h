// Ranks that send to each other in each step.
#pragma once
#include "job.h"

// A pipeline of all ranks: all forward passes and then all backward ones, or one after the other
// as soon as can be.  Says `bubble_ns`.
void pipeline(Job& job, int steps, int micro_batches, bool all_forward_first);

// Each sends to all, or to the next in a ring, and receives from all or from the one before, behind
// the backward pass.
void all_to_all(Job& job, int steps);
void ring(Job& job, int steps);
