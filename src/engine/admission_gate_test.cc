#include "engine/admission_gate.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

using std::chrono::seconds;

TEST(AdmissionGate, ABurstBetweenTwoStepsCounts) {
  AdmissionGate gate({.breaker = {.max_wait = 10}});
  TimePoint now{};
  gate.Update({.wait = 0, .service = 2, .free_places = 3}, 0, now);
  // Three begin at once, and five more wait two seconds each.
  int admitted = 0;
  for (; admitted < 100; ++admitted) {
    try {
      gate.Enter(1, 10, now);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_GE(error.details().retry_after_seconds.value(), 1);
      break;
    }
  }
  EXPECT_EQ(admitted, 3 + 6);
  EXPECT_EQ(gate.state().breaker, BreakerState::kShedding);
  EXPECT_EQ(gate.state().pending, 9u);
  // The engine takes them and works them off.
  gate.Taken(9);
  gate.Update({.wait = 6, .service = 2, .free_places = 0}, 3, now += seconds(4));
  EXPECT_THROW(gate.Enter(1, 10, now), Error);
  gate.Update({.wait = 2, .service = 2, .free_places = 0}, 1, now += seconds(4));
  EXPECT_NO_THROW(gate.Enter(1, 10, now));
  EXPECT_EQ(gate.state().breaker, BreakerState::kProbing);
}

TEST(AdmissionGate, TheQueueIsBounded) {
  AdmissionGate gate({.max_queue = 4});
  gate.Update({.wait = 100, .service = 1, .free_places = 2}, 0, {});
  gate.Enter(5, 10, {});
  EXPECT_THROW(gate.Enter(2, 10, {}), Error);
  gate.Enter(1, 10, {});
  EXPECT_THROW(gate.Enter(1, 10, {}), Error);
  gate.Taken(6);
  EXPECT_THROW(gate.Enter(1, 10, {}), Error);
  gate.Update({.wait = 0, .service = 1, .free_places = 0}, 3, {});
  gate.Enter(1, 10, {});
}

TEST(AdmissionGate, WhoWouldMissTheTargetStaysOut) {
  AdmissionGate gate({.breaker = {.max_wait = 10}, .ttft_target = 1});
  gate.Update({.wait = 0.7, .prompt_second = 0.001}, 0, {});
  EXPECT_NO_THROW(gate.Enter(1, 200, {}));
  EXPECT_THROW(gate.Enter(1, 400, {}), Error);
  EXPECT_NO_THROW(gate.Enter(1, 1500, {}));  // would miss it on an idle machine as well
  gate.Update({.wait = 0.1, .prompt_second = 0.001, .lateness = 3}, 0, {});
  EXPECT_NO_THROW(gate.Enter(1, 200, {}));
  EXPECT_THROW(gate.Enter(1, 300, {}), Error);
  EXPECT_NO_THROW(gate.Enter(1, 400, {}));
}

}  // namespace
}  // namespace hadal
