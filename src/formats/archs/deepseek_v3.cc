// DeepSeek V3 and R1: V2's attention, sigmoid routing with a bias for choosing, and layers for
// multi-token prediction, which plain decoding leaves out.
#include "formats/archs/common.h"

namespace hadal {
namespace {

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out = DeepSeekMlaFromHf(config);
  out.mtp_layers = config.OptionalCount("num_nextn_predict_layers").value_or(0);
  return out;
}

}  // namespace

const Architecture kDeepSeekV3 = {
    .name = "deepseek_v3",
    .hf_types = {"deepseek_v3"},
    .gguf_type = "",  // as deepseek2, in deepseek_v2.cc
    .from_hf = FromHf,
    .from_gguf = nullptr,
    .hf_names = DeepSeekHfNames(),
};

}  // namespace hadal
