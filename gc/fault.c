#include "gc/fault.h"
#ifdef TERN_FAULTS
enum fault fault_planted;
#else
typedef int fault_nothing;
#endif
