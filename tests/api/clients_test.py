#!/usr/bin/env python3
"""The clients people use, against a server of its own: openai, langchain-openai.

    clients_test.py PATH/TO/hadal [unittest arguments]

Skips itself, visibly, where the packages of requirements.txt are not installed.
"""
import json
import sys
import unittest

from live_server import LiveServer
from venv_python import use_venv

use_venv()
try:
    import openai
    from langchain_openai import ChatOpenAI
except ImportError as error:
    print(f"SKIPPED: {error}; see tests/api/requirements.txt")
    sys.exit(77)

HADAL = ""
KUWAIT = [{"role": "user", "content": "Name the capital of Kuwait."}]
ANSWER = "The capital of Kuwait is Kuwait City."
VIENNA = [{"role": "system", "content": "You are Reef."},
          {"role": "user", "content": "How is the weather in Vienna?"}]


def tool(name, description, field):
    return {"type": "function", "function": {
        "name": name, "description": description,
        "parameters": {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}}}


TOOLS = [tool("get_weather", "Get the weather of a city.", "city"),
         tool("calculator", "Compute an expression.", "expression")]


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer(HADAL, "--api-key", "secret")
        cls.base = f"http://127.0.0.1:{cls.server.port}/v1"
        cls.client = openai.OpenAI(base_url=cls.base, api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def chat(self, **options):
        return self.client.chat.completions.create(**{"model": "reef", "messages": KUWAIT, **options})


class OpenAI(ClientTest):
    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["reef"])
        self.assertEqual(self.client.models.retrieve("reef").id, "reef")

    def test_chat(self):
        reply = self.chat()
        self.assertEqual(reply.choices[0].message.content, ANSWER)
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)

    def test_stream_is_the_same(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, ANSWER)
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 5)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")

    def test_stream_helper(self):
        with self.client.chat.completions.stream(model="reef", messages=VIENNA, tools=TOOLS) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        call = final.choices[0].message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Vienna"}))
        self.assertEqual(final.choices[0].message.role, "assistant")
        self.assertEqual(final.choices[0].finish_reason, "tool_calls")
        self.assertIn("tool_calls.function.arguments.done", kinds)

    def test_stream_helper_with_several_choices(self):
        with self.client.chat.completions.stream(model="reef", messages=KUWAIT, n=3) as stream:
            final = stream.get_final_completion()
        self.assertEqual([choice.message.content for choice in final.choices], [ANSWER] * 3)

    def test_tools_and_their_results(self):
        reply = self.chat(messages=VIENNA, tools=TOOLS)
        message = reply.choices[0].message
        self.assertEqual(reply.choices[0].finish_reason, "tool_calls")
        self.assertTrue(message.tool_calls[0].id.startswith("call_"))
        history = [*VIENNA, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id,
                                      "content": json.dumps({"city": "Vienna", "temp": 3, "sky": "cloudy"})}]
        answer = self.chat(messages=history, tools=TOOLS).choices[0].message.content
        self.assertIn("Vienna", answer)

    def test_thoughts(self):
        reply = self.chat(messages=[{"role": "user", "content": "How do you do?"}],
                          extra_body={"thinking": {"type": "enabled"}})
        self.assertEqual(reply.choices[0].message.content, "I am fine, thank you.")
        self.assertEqual(reply.choices[0].message.reasoning_content, "Small talk.")
        self.assertGreater(reply.usage.completion_tokens_details.reasoning_tokens, 1)

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
        self.assertEqual("".join(bytes(entry.bytes).decode() for entry in content)[:3], "The")
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertLessEqual(entry.logprob, 0)
        streamed = []
        for chunk in self.chat(logprobs=True, top_logprobs=3, max_tokens=4, stream=True):
            if chunk.choices[0].logprobs:
                streamed += chunk.choices[0].logprobs.content
        self.assertEqual(streamed, content)

    def test_completions(self):
        reply = self.client.completions.create(model="reef", prompt=["What is", "Good"], n=2, max_tokens=5, logprobs=2)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1, 2, 3])
        self.assertEqual(reply.choices[0].text, reply.choices[1].text)
        self.assertEqual(len(reply.choices[0].logprobs.tokens), len(reply.choices[0].logprobs.text_offset))

    def test_seeds_repeat(self):
        texts = {self.chat(temperature=2, seed=seed, max_tokens=30, messages=[{"role": "user", "content": "Hi"}]
                           ).choices[0].message.content for seed in (5, 5, 5)}
        self.assertEqual(len(texts), 1)

    def test_errors_are_their_classes(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.chat(model="nothing")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(max_tokens=10**6)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertIn("maximum context length", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(extra_body={"top_k": "many"})
        self.assertEqual(caught.exception.param, "top_k")
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.base, api_key="wrong", max_retries=0).models.list()


class LangChain(ClientTest):
    def model(self, **options):
        return ChatOpenAI(base_url=self.base, api_key="secret", model="reef", max_retries=0, temperature=0, **options)

    def test_invoke_and_stream(self):
        self.assertEqual(self.model().invoke(KUWAIT).content, ANSWER)
        self.assertEqual("".join(chunk.content for chunk in self.model().stream(KUWAIT)), ANSWER)

    def test_usage_of_a_stream(self):
        whole = None
        for chunk in self.model(stream_usage=True).stream(KUWAIT):
            whole = chunk if whole is None else whole + chunk
        self.assertEqual(whole.usage_metadata["input_tokens"], 10)

    def test_tools(self):
        reply = self.model().bind_tools(TOOLS).invoke(VIENNA)
        self.assertEqual(reply.tool_calls[0]["name"], "get_weather")
        self.assertEqual(reply.tool_calls[0]["args"], {"city": "Vienna"})


if __name__ == "__main__":
    HADAL = sys.argv.pop(1)
    unittest.main()
