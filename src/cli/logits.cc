#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/session.h"

namespace hadal::cli {
namespace {

// A file that is written in pieces and complains when it cannot be. It is opened early, to complain
// early, but a file that was there keeps its bytes until the first write, and one that was not is
// gone again when nothing is written.
class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)), is_new_(access(path_.c_str(), F_OK) != 0) {
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) FailSystem("create");
    file_.reset(fdopen(file, "wb"));
    HADAL_CHECK(file_ != nullptr);
  }
  ~OutputFile() {
    if (is_new_ && !written_) unlink(path_.c_str());
  }
  void WriteAt(uint64_t offset, const void* data, size_t size) {
    if (!written_ && !is_new_ && std::filesystem::is_regular_file(path_) &&
        ftruncate(fileno(file_.get()), 0) != 0) {
      FailSystem("write");
    }
    written_ = true;
    if (std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0 ||
        std::fwrite(data, 1, size, file_.get()) != size) {
      FailSystem("write");
    }
  }
  void Close() {
    if (std::fclose(file_.release()) != 0) FailSystem("write");
  }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void FailSystem(const char* action) {
    Fail(ErrorKind::kIo, "{}: cannot {}: {}", path_, action, std::strerror(errno));
  }
  std::string path_;
  bool is_new_;
  bool written_ = false;
  std::unique_ptr<std::FILE, Closer> file_;
};

std::vector<int32_t> ReadIds(const OptionValues& options, uint32_t vocab) {
  std::vector<int32_t> ids;
  for (const int64_t id : ParseIntegers(options.Text("ids"), "--ids")) {
    if (id < 0 || id >= vocab) {
      Fail(ErrorKind::kInvalid, "token id {} is outside the vocabulary of {}", id, vocab);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  if (ids.empty()) Fail(ErrorKind::kUsage, "--ids: at least one token id is needed");
  return ids;
}

// Writes [stage][row][hidden] as the chunks come, whose rows are in order.
class HiddenWriter {
 public:
  HiddenWriter(const std::string& path, const ModelSpec& spec, uint64_t n_rows)
      : file_(path), n_rows_(n_rows), rows_done_(spec.n_layers + 2) {}
  void operator()(uint32_t stage, Tensor values) {
    for (uint32_t r = 0; r < values.rows; ++r) {
      const uint64_t row = stage * n_rows_ + rows_done_[stage]++;
      file_.WriteAt(row * values.cols * sizeof(float), values.row(r), values.cols * sizeof(float));
    }
  }
  void Close() { file_.Close(); }

 private:
  OutputFile file_;
  uint64_t n_rows_;
  std::vector<uint64_t> rows_done_;
};

class RouterWriter {
 public:
  void operator()(uint32_t layer, uint32_t n_tokens, const Routing& routing) {
    OrderedJson& entry = layers_[layer];
    for (uint32_t t = 0; t < n_tokens; ++t) {
      const size_t first = size_t{t} * routing.n_used;
      entry["experts"].push_back(
          std::vector<int32_t>(routing.experts + first, routing.experts + first + routing.n_used));
      entry["weights"].push_back(
          std::vector<float>(routing.weights + first, routing.weights + first + routing.n_used));
    }
  }
  void Save(const std::string& path) {
    OrderedJson json = {{"layers", OrderedJson::array()}};
    for (auto& [layer, entry] : layers_) {
      OrderedJson row = {{"layer", layer}};
      row.update(entry);
      json["layers"].push_back(row);
    }
    const std::string text = json.dump() + "\n";
    OutputFile file(path);
    file.WriteAt(0, text.data(), text.size());
    file.Close();
  }

 private:
  std::map<uint32_t, OrderedJson> layers_;
};

// Every output is a file of its own and none is the model, whose mapped pages would vanish.
void CheckOutputs(const Checkpoint& checkpoint, const OptionValues& options) {
  std::vector<std::string> outputs;
  for (const char* key : {"out", "hidden", "router"}) {
    if (!options.Given(key)) continue;
    const std::string path = options.Text(key);
    std::error_code ignored;
    for (const std::filesystem::path& file : checkpoint.files()) {
      if (std::filesystem::equivalent(file, path, ignored)) {
        Fail(ErrorKind::kUsage, "--{}: {} is the model that is read; name another file", key, path);
      }
    }
    for (const std::string& other : outputs) {
      const bool device = std::filesystem::is_character_file(path, ignored);
      if (!device && std::filesystem::weakly_canonical(other, ignored) ==
                         std::filesystem::weakly_canonical(path, ignored)) {
        Fail(ErrorKind::kUsage, "--{}: {} is written already; name another file", key, path);
      }
    }
    outputs.push_back(path);
  }
}

std::vector<int32_t> Run(Engine& engine, Request request) {
  std::vector<int32_t> generated;
  RequestHandle handle = engine.Submit(std::move(request));
  while (const std::optional<RequestEvent> event = handle.Next()) {
    if (const auto* token = std::get_if<TokenEvent>(&*event)) generated.push_back(token->token);
    if (const auto* finished = std::get_if<FinishedEvent>(&*event); finished && finished->error) {
      throw *finished->error;
    }
  }
  return generated;
}

}  // namespace

int Logits(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  if (!options.Given("out")) Fail(ErrorKind::kUsage, "--out FILE is needed");
  Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const std::vector<int32_t> ids = ReadIds(options, checkpoint.spec().vocab);
  const auto greedy = static_cast<uint32_t>(options.Integer("greedy"));
  const uint64_t n_rows = ids.size() + greedy;

  CheckOutputs(checkpoint, options);
  OutputFile out(options.Text("out"));
  const std::unique_ptr<Session> session =
      OpenSession(std::move(checkpoint), options,
                  {.memory = {.max_logit_rows = static_cast<uint32_t>(options.Integer("chunk")),
                              .context = n_rows + 1}});
  uint64_t rows_done = 0;
  const auto write_logits = [&](const PlannedRun&, Tensor rows) {
    for (uint32_t r = 0; r < rows.rows; ++r, ++rows_done) {
      out.WriteAt(rows_done * rows.cols * sizeof(float), rows.row(r), rows.cols * sizeof(float));
    }
  };
  std::optional<HiddenWriter> hidden;
  if (options.Given("hidden")) hidden.emplace(options.Text("hidden"), session->spec(), n_rows);
  RouterWriter router;
  Taps taps;
  if (hidden) taps.hidden = [&](uint32_t stage, Tensor values) { (*hidden)(stage, values); };
  if (options.Given("router")) {
    taps.routing = [&](uint32_t layer, uint32_t n, const Routing& r) { router(layer, n, r); };
  }
  session->runner->Observe(&taps, write_logits);

  // One token more than asked for: choosing it is what computes the last one's row of logits.
  Request request;
  request.prompt = ids;
  request.max_tokens = greedy == 0 ? 0 : greedy + 1;
  request.prompt_logprobs = true;
  request.sampling.temperature = 0;
  request.sampling.logprobs = 0;
  std::vector<int32_t> generated = Run(*session->StartEngine(), std::move(request));
  generated.resize(greedy);

  out.Close();
  if (hidden) hidden->Close();
  if (options.Given("router")) router.Save(options.Text("router"));
  if (greedy > 0 || options.Flag("json")) {
    fmt::print("{}\n", OrderedJson{{"ids", ids},
                                   {"greedy_ids", generated},
                                   {"shape", {rows_done, session->spec().vocab}}}
                           .dump());
  }
  return 0;
}

}  // namespace hadal::cli
