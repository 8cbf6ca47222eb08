#include "formats/quantize.h"

#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "base/error.h"
#include "formats/gguf_metadata.h"
#include "formats/tensor_plan.h"
#include "quant/blocks.h"
#include "quant/quantize.h"
#include "spec/rope_table.h"

namespace hadal {
namespace {

// Decoded at once by each thread: some megabytes.
constexpr uint64_t kChunkElements = uint64_t{1} << 20;

// One tensor to write: views stacked one on another.
struct Job {
  std::string name;
  DType type = DType::kF32;
  std::vector<uint64_t> shape;
  std::vector<TensorView> parts;
  uint32_t permute_dim = 0;  // rows of q and k, reordered within heads of this size; 0: as they are
  std::vector<float> values;  // instead of parts
};

// The row of the source that becomes row `target`: pairs (i, i + d/2) become neighbours.
uint64_t SourceRow(uint64_t target, uint64_t head_dim) {
  const uint64_t i = target % head_dim;
  return target / head_dim * head_dim + i % 2 * (head_dim / 2) + i / 2;
}

class Quantizer {
 public:
  Quantizer(const Checkpoint& checkpoint, const std::filesystem::path& out, DType type)
      : checkpoint_(checkpoint), type_(type), writer_(out) {}

  QuantizeReport Run(const QuantizeProgress& progress) {
    checkpoint_.format().starts_with("GGUF") ? PlanGguf() : PlanHf();
    uint64_t total = 0;
    for (const Job& job : jobs_) {
      writer_.AddTensor(job.name, job.type, job.shape);
      for (const TensorView& part : job.parts) total += part.file_bytes();
    }
    uint64_t done = 0;
    for (const Job& job : jobs_) {
      Write(job);
      for (const TensorView& part : job.parts) {
        done += part.file_bytes();
        checkpoint_.Release(part);
      }
      if (progress && !progress(done, total)) {
        Fail(ErrorKind::kCancelled, "stopped; nothing was written");
      }
    }
    writer_.Finish();
    report_.bytes = writer_.bytes_written();
    report_.tensors = jobs_.size();
    return std::move(report_);
  }

 private:
  // The type of a matrix, given its row length.
  DType MatrixType(const std::string& name, uint64_t cols) {
    if (cols % Info(type_).block_elements == 0) return type_;
    report_.fallbacks.push_back(name);
    return DType::kF16;
  }

  void SetFileType() {
    // llama.cpp's numbers for "mostly this type"; only shown to people.
    constexpr std::array kFileTypes = {std::pair{DType::kF32, 0u},  std::pair{DType::kF16, 1u},
                                       std::pair{DType::kQ4_0, 2u}, std::pair{DType::kQ4_1, 3u},
                                       std::pair{DType::kQ8_0, 7u}, std::pair{DType::kQ5_0, 8u},
                                       std::pair{DType::kQ5_1, 9u}, std::pair{DType::kBF16, 32u}};
    for (const auto& [type, number] : kFileTypes) {
      if (type == type_) writer_.SetU32("general.file_type", number);
    }
    writer_.SetU32("general.quantization_version", 2);
  }

  void PlanGguf() {
    source_ = OpenGguf(checkpoint_.files().at(0));
    for (const auto& [key, value] : source_.first.metadata) {
      const bool ours = key == "general.file_type" || key == "general.quantization_version" ||
                        key == "general.alignment" || key.starts_with("split.");
      if (!ours) writer_.SetValue(key, value);
    }
    SetFileType();
    for (const auto& [name, view] : source_.tensors) {
      const bool plain = view.shape.size() == 1 || name.find("ffn_gate_inp") != std::string::npos;
      const DType type = plain ? DType::kF32 : MatrixType(name, view.cols());
      jobs_.push_back({name, type, view.shape, {view}, 0, {}});
    }
  }

  void PlanHf() {
    const ModelSpec& spec = checkpoint_.spec();
    SetModelMetadata(spec, writer_);
    SetTokenizerMetadata(spec, checkpoint_.vocabulary(), writer_);
    SetFileType();
    AddRopeFactors();
    for (const TensorName& name : GgufNames()) {
      if (name.canonical.find('#') == std::string_view::npos) {
        Add(name, 0);
        continue;
      }
      for (uint32_t layer = 0; layer < spec.n_layers; ++layer) Add(name, layer);
    }
  }

  void AddRopeFactors() {
    const RopeSpec& rope = checkpoint_.spec().rope;
    if (rope.scaling != RopeScaling::kLlama3) return;
    RopeSpec plain = rope;
    plain.scaling = RopeScaling::kNone;
    const std::vector<double> scaled = RopeTable(rope).InverseFrequencies(0);
    const std::vector<double> unscaled = RopeTable(plain).InverseFrequencies(0);
    Job job;
    job.name = "rope_freqs.weight";
    job.shape = {scaled.size()};
    for (size_t i = 0; i < scaled.size(); ++i) {
      job.values.push_back(static_cast<float>(unscaled[i] / scaled[i]));
    }
    jobs_.push_back(std::move(job));
  }

  void Add(const TensorName& name, uint32_t layer) {
    const ModelSpec& spec = checkpoint_.spec();
    const bool stacked = name.canonical.find('%') != std::string_view::npos;
    const uint32_t n_parts = stacked && spec.moe ? spec.moe->n_experts : 1;
    Job job;
    job.name = FillName(name.file, layer, 0);
    for (uint32_t part = 0; part < n_parts; ++part) {
      const TensorView* view = checkpoint_.find(FillName(name.canonical, layer, part));
      if (view == nullptr) return;
      job.parts.push_back(*view);
    }
    job.shape = job.parts[0].shape;
    if (stacked) job.shape.insert(job.shape.begin(), n_parts);
    const bool router = name.canonical.ends_with("router");
    // Their gate is a vector in GGUF.
    if (name.canonical.ends_with("shared.router")) job.shape.erase(job.shape.begin());
    const bool plain = job.shape.size() == 1 || router;
    job.type = plain ? DType::kF32 : MatrixType(job.name, job.shape.back());
    if (name.canonical == "layers.#.q" || name.canonical == "layers.#.k") {
      job.permute_dim = PermuteDim();
    }
    const TensorView* bias = checkpoint_.find(FillName(name.canonical, layer, 0) + ".bias");
    const uint32_t permute = job.permute_dim;
    const std::string bias_name = job.name.substr(0, job.name.size() - 6) + "bias";
    jobs_.push_back(std::move(job));
    if (bias != nullptr) {
      jobs_.push_back({bias_name, DType::kF32, bias->shape, {*bias}, permute, {}});
    }
  }

  // GGUF's llama and deepseek hold q and k for neighbour pairs; see archs/llama.cc.
  uint32_t PermuteDim() const {
    const ModelSpec& spec = checkpoint_.spec();
    const std::string arch = GgufArchitecture(spec);
    const bool reorder =
        (arch == "llama" || arch == "deepseek") && spec.rope.layout == RopeLayout::kHalfSplit;
    return reorder ? spec.attention.head_dim : 0;
  }

  void Write(const Job& job) {
    if (!job.values.empty()) {
      writer_.Append(std::as_bytes(std::span(job.values)));
      return;
    }
    for (const TensorView& part : job.parts) {
      if (job.permute_dim > 0 && part.shape.size() == 1) {
        WriteVectorPermuted(part, job);
      } else {
        WithContext(part.name, [&] { WriteRows(part, job); });
      }
    }
  }

  void WriteVectorPermuted(const TensorView& part, const Job& job) {
    std::vector<float> values(part.cols());
    DequantizeRows(part, 0, 1, values);
    std::vector<float> ordered(values.size());
    for (uint64_t i = 0; i < values.size(); ++i) ordered[i] = values[SourceRow(i, job.permute_dim)];
    writer_.Append(std::as_bytes(std::span(ordered)));
  }

  // Rows [first, first + n) of the target.
  static std::vector<std::byte> Convert(const TensorView& part, const Job& job, uint64_t first,
                                        uint64_t n) {
    const uint64_t cols = part.cols();
    const uint64_t row_bytes = RowBytes(job.type, cols);
    std::vector<float> values(n * cols);
    std::vector<std::byte> bytes(n * row_bytes);
    if (job.permute_dim == 0) {
      DequantizeRows(part, first, n, values);
    } else {
      for (uint64_t i = 0; i < n; ++i) {
        DequantizeRows(part, SourceRow(first + i, job.permute_dim), 1,
                       std::span(values).subspan(i * cols, cols));
      }
    }
    for (uint64_t i = 0; i < n; ++i) {
      QuantizeRow(job.type, std::span(values).subspan(i * cols, cols),
                  std::span(bytes).subspan(i * row_bytes, row_bytes));
    }
    return bytes;
  }

  void WriteRows(const TensorView& part, const Job& job) {
    if (part.dtype == job.type && job.permute_dim == 0) {
      writer_.Append(part.data);
      return;
    }
    const uint64_t rows = part.rows();
    const uint64_t step = std::max<uint64_t>(1, kChunkElements / part.cols());
    std::vector<std::future<std::vector<std::byte>>> chunks(n_threads_);
    for (uint64_t row = 0; row < rows; row += step * n_threads_) {
      size_t n_chunks = 0;
      for (uint64_t first = row; first < rows && n_chunks < n_threads_; first += step) {
        const uint64_t n = std::min(step, rows - first);
        chunks[n_chunks++] = std::async(
            std::launch::async, [&part, &job, first, n] { return Convert(part, job, first, n); });
      }
      for (size_t i = 0; i < n_chunks; ++i) writer_.Append(chunks[i].get());
    }
  }

  const Checkpoint& checkpoint_;
  DType type_;
  GgufWriter writer_;
  GgufModel source_;
  std::vector<Job> jobs_;
  QuantizeReport report_;
  const size_t n_threads_ = std::max(1u, std::thread::hardware_concurrency());
};

}  // namespace

QuantizeReport QuantizeCheckpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                  DType type, const QuantizeProgress& progress) {
  if (!CanQuantizeTo(type)) {
    Fail(ErrorKind::kUsage, "cannot quantize to {}; choose q8_0, q4_0, q4_1, bf16 or f16",
         Name(type));
  }
  for (const std::filesystem::path& file : checkpoint.files()) {
    std::error_code ignored;
    if (std::filesystem::equivalent(file, out, ignored)) {
      Fail(ErrorKind::kUsage, "{}: would overwrite the model that is read; name another file",
           out.string());
    }
  }
  return Quantizer(checkpoint, out, type).Run(progress);
}

}  // namespace hadal
