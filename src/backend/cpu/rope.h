// RopeAndStore (backend.h) on threads.
#pragma once

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace hadal {

void CpuRopeAndStore(ThreadPool& pool, const KernelTable& kernels, const StepInput& step,
                     KvCache& kv, const RopeStoreArgs& args);

}  // namespace hadal
