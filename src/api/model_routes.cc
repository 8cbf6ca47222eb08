// GET /models and /models/{id}.
#include <string>
#include <utility>

#include "api/server.h"

namespace hadal::api {
namespace {

OrderedJson ModelJson(const ServedModel& model, const std::string& name) {
  const uint32_t context = model.engine->capacity();
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "hadal"},
          {"root", model.names.own()},
          {"max_model_len", context},
          {"context_length", context},
          {"context_window", context}};
}

}  // namespace

void ApiServer::AddModelRoutes(Router& router) {
  const auto list = [this](const Exchange&) {
    const ServedModel& model = Model();
    OrderedJson data = OrderedJson::array();
    for (const std::string& name : model.names.listed()) data.push_back(ModelJson(model, name));
    return JsonReply(200, {{"object", "list"}, {"data", std::move(data)}});
  };
  const auto one = [this](const Exchange& exchange) {
    const ServedModel& model = Model();
    const std::string name(exchange.request().Parameter("id"));
    model.names.Check(name);
    return JsonReply(200, ModelJson(model, name));
  };
  for (const std::string_view known : kRoutePrefixes) {
    const std::string prefix(known);
    router.Add("GET", prefix + "/models", Answering(list), {.metric = "models"});
    // Names may hold slashes.
    router.Add("GET", prefix + "/models/{id*}", Answering(one), {.metric = "models"});
  }
}

}  // namespace hadal::api
