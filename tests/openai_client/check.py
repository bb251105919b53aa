"""Checks `varve serve` with the official client: check.py [BASE_URL [KEY]]. See the README beside it."""
import sys

try:
    import openai
except ImportError:
    print("skipped: the `openai` package is not installed (pip install openai)")
    sys.exit(0)

BASE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1"
KEY = sys.argv[2] if len(sys.argv) > 2 else "none"
client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0, timeout=300)
model = client.models.list().data[0].id
messages = [{"role": "user", "content": "Write a line about vectors."}]


def chat(**more):
    return client.chat.completions.create(**({"model": model, "messages": messages, "max_tokens": 16} | more))


def joined(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def models():
    assert client.models.retrieve(model).id == model


def whole_chat():
    reply = chat()
    assert reply.object == "chat.completion" and reply.model == model
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens == reply.usage.total_tokens
    assert reply.usage.prompt_tokens_details.cached_tokens >= 0


def streamed_chat():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason in ("stop", "length")
    assert not chunks[-1].choices and chunks[-1].usage.completion_tokens > 0
    assert joined(chunks) == chat().choices[0].message.content


def stop_texts():
    text = chat().choices[0].message.content
    stop = text[len(text) // 2:][:3]
    if stop:
        expected = text[:text.index(stop)]
        assert chat(stop=[stop]).choices[0].message.content == expected
        assert joined(chat(stop=stop, stream=True)) == expected


def seeds():
    def text(seed):
        return chat(temperature=1.5, seed=seed, max_tokens=24).choices[0].message.content
    assert text(1) == text(1)
    assert len({text(seed) for seed in range(4)}) > 1


def completions():
    whole = client.completions.create(model=model, prompt="fn main() {", max_tokens=16)
    assert whole.object == "text_completion" and whole.usage.completion_tokens > 0
    parts = client.completions.create(model=model, prompt="fn main() {", max_tokens=16, stream=True)
    assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text


def left_stream():
    stream = chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    assert chat(max_tokens=1).usage.completion_tokens == 1


def errors():
    for more, kind in [
        ({"model": "no-such-model"}, openai.NotFoundError),
        ({"temperature": 3}, openai.BadRequestError),
        ({"messages": []}, openai.BadRequestError),
        ({"max_tokens": 10 ** 9}, openai.BadRequestError),
        ({"n": 2}, openai.BadRequestError),
    ]:
        try:
            chat(**more)
        except kind as error:
            assert error.code and error.type, more
        else:
            raise AssertionError(f"{more} was accepted")


failed = 0
for check in (models, whole_chat, streamed_chat, stop_texts, seeds, completions, left_stream, errors):
    try:
        check()
        print(f"ok    {check.__name__}")
    except Exception as error:
        failed += 1
        print(f"FAIL  {check.__name__}: {type(error).__name__}: {error}")
print(f"openai {openai.__version__}, model {model}: {failed} failed")
sys.exit(bool(failed))
