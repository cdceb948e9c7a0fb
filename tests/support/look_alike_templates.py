"""Chat templates written for tests in the manner of the public families, each with its own marks and manners."""

from __future__ import annotations

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""

CHATML_WITH_DEFAULT = """\
{% if messages[0].role != 'system' %}<|im_start|>system
You are helpful.<|im_end|>
{% endif %}
{% for m in messages %}
<|im_start|>{{ m.role }}
{{ m.content | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

LLAMA_2 = """\
{%- if messages[0]['role'] == 'system' -%}
  {%- set system, turns = '<<SYS>>\n' ~ messages[0]['content'] ~ '\n<</SYS>>\n\n', messages[1:] -%}
{%- else -%}
  {%- set system, turns = '', messages -%}
{%- endif -%}
{%- for turn in turns -%}
  {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{- raise_exception('Roles must alternate: user, assistant, user, ...') -}}
  {%- endif -%}
  {%- set content = system ~ turn['content'] if loop.first else turn['content'] -%}
  {%- if turn['role'] == 'user' -%}
    {{- bos_token ~ '[INST] ' ~ content.strip() ~ ' [/INST]' -}}
  {%- else -%}
    {{- ' ' ~ content.strip() ~ ' ' ~ eos_token -}}
  {%- endif -%}
{%- endfor -%}
"""

LLAMA_3 = """\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- if messages[0]['role'] == 'system' %}
    {%- set ns.system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nToday: ' + strftime_now('%d %b %Y') + '\n\n' }}
{{- ns.system + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}
"""

MISTRAL = """\
{{- bos_token }}
{%- set turns = messages | rejectattr('role', 'equalto', 'system') | list %}
{%- set system = messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | join('\n\n') %}
{%- for turn in turns %}
{%- if turn.role == 'user' %}
{{- '[INST] ' }}{% if loop.last and system %}{{ system + '\n\n' }}{% endif %}{{ turn.content + '[/INST]' }}
{%- else %}
{{- ' ' + turn.content + eos_token }}
{%- endif %}
{%- endfor %}
"""

PHI = """\
{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}
"""

ZEPHYR = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

ALPACA = """\
{% for message in messages %}
{% if message.role == 'user' %}
### Instruction:
{{ message.content }}

{% elif message.role == 'assistant' %}
### Response:
{{ message.content }}{{ eos_token }}

{% endif %}
{% endfor %}
{% if add_generation_prompt %}
### Response:
{% endif %}
"""

COMMAND_R = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- set name = {'user': 'USER', 'assistant': 'CHATBOT', 'system': 'SYSTEM'}[message['role']] -%}
{{- '<|START_OF_TURN_TOKEN|><|' ~ name ~ '_TOKEN|>' ~ message['content'].strip() ~ '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif -%}
"""

DEEPSEEK = """\
{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif -%}
{%- set ns = namespace(system='') -%}
{%- for message in messages if message.role == 'system' %}{% set ns.system = ns.system + message.content %}{% endfor -%}
{{- bos_token + ns.system -}}
{%- for message in messages -%}
  {%- if message.role == 'user' %}{{ '<｜User｜>' + message.content }}
  {%- elif message.role == 'assistant' -%}
    {%- set content = message.content.split('</think>')[-1] if '</think>' in message.content else message.content -%}
    {{- '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>' }}{% endif %}{% endif -%}
"""

FAMILIES = {
    "chatml": CHATML,
    "chatml with a default system prompt": CHATML_WITH_DEFAULT,
    "llama 2": LLAMA_2,
    "llama 3": LLAMA_3,
    "gemma": GEMMA,
    "mistral": MISTRAL,
    "phi": PHI,
    "zephyr": ZEPHYR,
    "alpaca": ALPACA,
    "command r": COMMAND_R,
    "deepseek": DEEPSEEK,
}
