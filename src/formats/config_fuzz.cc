// Any config.json is one Error or a spec that the rest of the engine can trust.
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/error.h"
#include "formats/archs/arch.h"
#include "formats/tensor_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const hadal::Json config =
        hadal::ParseJson({reinterpret_cast<const char*>(data), size}, "config.json");
    const hadal::ConfigReader reader(config, "config.json");
    const hadal::Architecture& architecture =
        hadal::FindHfArchitecture(reader.Text("model_type"), "config.json");
    const hadal::ModelDescription model = architecture.from_hf(reader);
    HADAL_CHECK(model.spec.layers.size() == model.spec.n_layers);
    HADAL_CHECK(std::isfinite(model.spec.attention.softmax_scale));
    uint64_t visited = 0;
    hadal::VisitTensors(model, [&](const hadal::PlannedTensor& tensor) {
      for (const uint64_t dim : tensor.shape) HADAL_CHECK(dim > 0);
      if (++visited == 1000) hadal::Fail(hadal::ErrorKind::kCancelled, "enough");
    });
  } catch (const hadal::Error&) {
  }
  return 0;
}
