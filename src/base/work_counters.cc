#include "base/work_counters.h"

namespace hadal {

constinit thread_local ThreadWork thread_work;

}  // namespace hadal
