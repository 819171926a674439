/* The message layer of ARMCI, under a name that programs include. */
#include "armci.h"
