#include "sched/waiting_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace hadal {
namespace {

// Puts `sequence` behind all that come later than it, for vectors with the next one last.
template <typename Later>
void Insert(std::vector<std::unique_ptr<Sequence>>& queue, std::unique_ptr<Sequence> sequence,
            Later later) {
  const auto place = std::find_if(queue.begin(), queue.end(),
                                  [&](const auto& other) { return !later(*other, *sequence); });
  queue.insert(place, std::move(sequence));
}

std::unique_ptr<Sequence> TakeLast(std::vector<std::unique_ptr<Sequence>>& queue) {
  std::unique_ptr<Sequence> sequence = std::move(queue.back());
  queue.pop_back();
  return sequence;
}

std::unique_ptr<Sequence> RemoveFrom(std::vector<std::unique_ptr<Sequence>>& queue, uint64_t id) {
  const auto found =
      std::find_if(queue.begin(), queue.end(), [id](const auto& s) { return s->request.id == id; });
  if (found == queue.end()) return nullptr;
  std::unique_ptr<Sequence> sequence = std::move(*found);
  queue.erase(found);
  return sequence;
}

}  // namespace

double WaitingQueue::LeastServed() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.active()) least = std::min(least, tenant.served);
  }
  return least;
}

void WaitingQueue::Push(std::unique_ptr<Sequence> sequence) {
  HADAL_CHECK(sequence->admission == 0);
  const double least = LeastServed();
  if (least < std::numeric_limits<double>::infinity()) floor_ = std::max(floor_, least);
  Tenant& tenant = tenants_[sequence->request.tenant];
  if (!tenant.active()) tenant.served = std::max(tenant.served, floor_);
  sequence->queue_key = Seconds(TimePoint{}, sequence->submitted) +
                        priority_seconds_ * static_cast<double>(sequence->request.priority);
  Insert(tenant.waiting, std::move(sequence), [](const Sequence& a, const Sequence& b) {
    return a.queue_key != b.queue_key ? a.queue_key > b.queue_key : a.request.id > b.request.id;
  });
  ++size_;
}

void WaitingQueue::Return(std::unique_ptr<Sequence> sequence) {
  HADAL_CHECK(sequence->admission > 0);
  Insert(returned_, std::move(sequence),
         [](const Sequence& a, const Sequence& b) { return a.admission > b.admission; });
  ++size_;
}

std::map<uint32_t, WaitingQueue::Tenant>::iterator WaitingQueue::NextTenant() {
  auto next = tenants_.end();
  for (auto it = tenants_.begin(); it != tenants_.end(); ++it) {
    if (it->second.waiting.empty()) continue;
    if (next == tenants_.end() || it->second.served < next->second.served) next = it;
  }
  return next;
}

Sequence* WaitingQueue::Head() {
  if (!returned_.empty()) return returned_.back().get();
  const auto tenant = NextTenant();
  return tenant == tenants_.end() ? nullptr : tenant->second.waiting.back().get();
}

std::unique_ptr<Sequence> WaitingQueue::TakeHead() {
  HADAL_CHECK(size_ > 0);
  --size_;
  if (!returned_.empty()) return TakeLast(returned_);
  return TakeLast(NextTenant()->second.waiting);
}

std::unique_ptr<Sequence> WaitingQueue::Remove(uint64_t id) {
  std::unique_ptr<Sequence> sequence = RemoveFrom(returned_, id);
  for (auto it = tenants_.begin(); sequence == nullptr && it != tenants_.end(); ++it) {
    sequence = RemoveFrom(it->second.waiting, id);
  }
  if (sequence != nullptr) {
    --size_;
    ForgetIdle();
  }
  return sequence;
}

void WaitingQueue::Charge(uint32_t tenant, double tokens) {
  tenants_[tenant].served += tokens;
}

void WaitingQueue::NoteRunning(uint32_t tenant, int32_t change) {
  uint32_t& n_running = tenants_[tenant].n_running;
  HADAL_CHECK(change > 0 || n_running > 0);
  n_running = static_cast<uint32_t>(static_cast<int32_t>(n_running) + change);
  if (change < 0) ForgetIdle();
}

// Tenants come and go without bound. Who is idle and was served no more than the others loses
// nothing by being forgotten.
void WaitingQueue::ForgetIdle() {
  const double least = LeastServed();
  if (least < std::numeric_limits<double>::infinity()) {
    floor_ = std::max(floor_, least);
  } else {
    for (const auto& [id, tenant] : tenants_) floor_ = std::max(floor_, tenant.served);
  }
  std::erase_if(tenants_, [this](const auto& entry) {
    return !entry.second.active() && entry.second.served <= floor_;
  });
}

void WaitingQueue::ForEach(const std::function<void(const Sequence&)>& visit) const {
  for (const auto& sequence : returned_) visit(*sequence);
  for (const auto& [id, tenant] : tenants_) {
    for (const auto& sequence : tenant.waiting) visit(*sequence);
  }
}

}  // namespace hadal
