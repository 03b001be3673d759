/* The planted fault of the faulty library; see fault.h. Nothing in a normal build. */
#include "gc/fault.h"

#ifdef TERN_FAULTS
enum fault fault_planted;
#endif
