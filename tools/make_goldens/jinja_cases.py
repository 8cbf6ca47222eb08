#!/usr/bin/env python3
"""Writes tests/data/chat/jinja_cases.jsonl: small templates and what jinja2 makes of them.

Needs jinja2 3.1 (pip install jinja2). The environment is set up as Hugging Face transformers does.
The first line holds the variables; each other line has `template` and `expected` or `error` (the
Python exception's type; only that there is an error is compared).
"""
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

CONTEXT = {
    "a": 7, "b": -3, "f": 2.5, "big": 9007199254740993, "t": True, "n": None, "s": "Hello World",
    "u": "Grüße, 北京 😀", "blank": " \t\n x  y \n", "q": "it's \"q\" \\ \n \u00e9 \x07 \u200b",
    "empty": "", "l": [3, 1, 2], "m": ["b", "A", "c", "a"], "e": [],
    "d": {"x": 1, "y": [1, 2], "items": 5, "k k": "v"}, "html": "<b>&'\"",
    "users": [{"name": "Bo", "age": 3, "tags": ["p"]}, {"name": "al", "age": 1, "tags": []},
              {"name": "Cy", "age": 3, "tags": ["q", "r"], "z": None}],
    "nested": [[1, [2, [3, None]]], {"a": {"b": [True, 1.0, 1e20, 1e-7]}}],
    "tree": [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4, "c": []}]}]}],
}

EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 2
7.5 // 2
-7.5 // 2
-7.5 % 2
7.5 % -2
1e3
1_000
0.1 + 0.2
1e16
1e15
123456789.123
1e-5
0.0001
-0.0
2 ** -1
2 ** 0.5
1.0
1e300 * 1e10
10 ** 18
big
big + 0.0
1 == 1.0
true == 1
true + true
not true
not not 1
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
1 in l
5 not in l
'ell' in s
'x' in d
'z' not in d
none == false
"1" == 1
l == [3, 1, 2]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
'a' < 'b'
'Z' < 'a'
[1, 2] < [1, 3]
'a' < 1
none < 1
1 and 2
0 and 2
0 or 'x'
'' or none
1 or 1/0
true and not false or false
'a' ~ 1 ~ none ~ 1.0 ~ true
1 ~ 2 + 3
'a' + 'b' * 3
3 * 'ab'
'x' * -1
[1] * 3
[1] + [2, 3]
(1,) + (2,)
[1] + (2,)
'a' + 1
1 + 'a'
none + 1
missing
missing ~ 'x'
missing + 1
missing.attr
missing['x']
d.missing
d.missing.more
d['missing']
n.foo
n.foo.bar
l[0]
l[-1]
l[99]
l['x']
l.0
d.x
d['x']
d['items']
d['k k']
d.y[1]
d.get('x')
d.get('nope')
d.get('nope', 'dflt')
d.keys() | list
d.values() | list
s[0]
s[-1]
s[99]
u[0]
u[7]
u[-1]
s[1:4]
s[:-3]
s[::-1]
s[::2]
s[4:1:-1]
u[3:9]
u[::-1]
l[1:]
l[::-1]
l[5:]
l[-2:]
l[:1]
l[::0]
(1, 2, 3)[1:]
a if t else b
a if not t
(a if not t) is undefined
'yes' if a > 5 else 'no' if a > 3 else 'never'
[1, 2.0, 'x', none, true, [1, 'it\'s']]
(1,)
(1, 2)
()
{}
[]
{'a': 1, 'b': [1, 2]}
{1: 'x', none: 2, (1, 2): 3}
{[1]: 2}
q
[q]
[u]
['a"b', "a'b", 'a\'b"c']
nested
[1e20, 1e-7, 1e16, 100.0]
"\u00e9\x41\n\t\\\"\'\101"
'\d'
'a' 'b' "c"
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
"they're bill's".title()
u.upper()
u.lower()
'ß'.upper()
s.strip('Hd')
blank.strip()
blank.lstrip()
blank.rstrip()
blank.split()
blank.split(' ')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
'a b  c'.rsplit(none, 1)
'a b  c '.split(none, 1)
''.split()
''.split(',')
'abc'.split('')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'a\nb\r\nc\n'.splitlines()
'a\nb'.splitlines(true)
s.startswith('Hell')
s.startswith(('x', 'H'))
s.endswith('ld')
s.endswith('')
s.replace('l', 'L')
s.replace('l', 'L', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
u.find('北')
u.rfind('x')
s.find('o', 5)
s.index('o')
s.index('z')
s.count('l')
'aaa'.count('aa')
'abc'.count('')
'-'.join(['a', 'b'])
'-'.join([1])
', '.join(d)
'abc'.isalpha()
'ab1'.isalnum()
'12'.isdigit()
''.isdigit()
'  '.isspace()
'Ab'.isupper()
'AB1'.isupper()
'ab'.islower()
'prefix-x'.removeprefix('prefix-')
'x.py'.removesuffix('.py')
'x'.center(6, '*')
'ab'.center(5)
'x'.ljust(4, '.')
'x'.rjust(4, '.')
'-5'.zfill(4)
'{} and {}'.format(1, 'b')
'{1}{0}'.format('a', 'b')
'{x}-{y}'.format(x=1, y=none)
'{:>6}|{:<6}|{:^6}|'.format('a', 'b', 'c')
'{:05d} {:.2f} {:,} {:x} {:+d} {:e}'.format(42, 3.14159, 1234567, 255, 5, 12345.678)
'{{}} {0[x]} {0.x}'.format(d)
'{!r}'.format('a')
'{} {}'.format(1)
'%s is %d years %5.1f%%' % ('Bo', 3, 99.5)
'%s' % 'x'
'%s' % none
'%s' % l
'%05d|%-5s|%5s|%x|%r|%g|%c' | format(42, 'a', 'b', 255, 'q', 0.0001, 'z')
'%(a)s' | format(a=1)
'%s' | format('x')
'%s %s' % 'x'
'%d' % 'x'
[1, 2, 2].count(2)
[1, 2].index(2)
[1, 2].index(5)
s | upper
s | lower
'hello wORLD foo-bar (baz)' | title
'hELLO' | capitalize
blank | trim
'xxaxx' | trim('x')
s | replace('o', '0')
s | replace('o', '0', 1)
5 | replace(5, 6)
s | length
u | length
l | length
d | length
missing | length
5 | length
none | length
l | count
l | first
l | last
e | first
e | last
missing | first
s | first
d | first
l | join
l | join(', ')
l | join('-') | upper
users | join(', ', attribute='name')
missing | join
none | join
s | list
d | list
missing | list
l | sort
l | sort(reverse=true)
m | sort
m | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
users | sort(reverse=true, attribute='name') | map(attribute='name') | list
[1, 'a'] | sort
['a', 'A', 'b'] | unique | list
['a', 'A', 'b'] | unique(case_sensitive=true) | list
users | unique(attribute='age') | map(attribute='name') | list
l | reverse | list
s | reverse
l | sum
[0.5, 1] | sum
users | sum(attribute='age')
[[1], [2]] | sum(start=[])
['a'] | sum
l | min
l | max
m | min
m | max
e | min
users | max(attribute='age')
users | map(attribute='tags.0') | list
users | map(attribute='z', default='none') | list
['a', 'b'] | map('upper') | list
[1, 2] | map('string') | list
['a', 'b'] | map('replace', 'a', 'x') | list
[' a '] | map('trim') | list
none | map('upper') | list
users | selectattr('tags') | map(attribute='name') | list
users | selectattr('age', 'equalto', 3) | map(attribute='name') | list
users | selectattr('age', '>', 1) | list | length
users | rejectattr('age', 'eq', 3) | map(attribute='name') | list
users | selectattr('z', 'defined') | map(attribute='name') | list
users | rejectattr('z', 'defined') | list | length
none | selectattr('x') | list
[0, 1, 2, none, ''] | select | list
[0, 1, 2, 3] | select('odd') | list
[0, 1, 2, 3] | reject('odd') | list
[0, 1, 2, 3] | select('in', [1, 2]) | list
[1, 2, 3] | select('nope') | list
d | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(case_sensitive=true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(by='value')
{'b': 1, 'A': 2, 'c': 0} | dictsort(reverse=true)
d | items | list
missing | items | list
l | items | list
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
users | groupby('age') | map('first') | list
users | groupby('age') | map(attribute='grouper') | list
missing | default('x')
missing | d('x')
none | default('x')
none | default('x', true)
'' | default('x', boolean=true)
'42' | int
'4.7' | int
' 42 ' | int
'abc' | int
'abc' | int(-1)
'ff' | int(base=16)
'0xff' | int(base=16)
4.9 | int
-4.9 | int
none | int
true | int
missing | int
'1_000' | int
'3.5' | float
'abc' | float
'abc' | float(1.5)
3 | float
'inf' | float
-5 | abs
-5.5 | abs
'x' | abs
2.5 | round
3.5 | round
2.567 | round(2)
2.675 | round(2)
7 | round
1234 | round(-2)
2.1 | round(method='ceil')
2.9 | round(method='floor')
2.123 | round(2, 'ceil')
42 | string
none | string
1.0 | string
missing | string
html | e
html | escape
html | safe
html | e | e
html | e | safe
html | forceescape
'<' | safe + '<'
'<' + ('>' | safe)
('<' | e) + '<'
'foo bar, baz' | wordcount
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, first=true, blank=true)
'a\nb\n' | indent(2)
'a\nb' | indent('> ')
'' | indent(2, true)
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'x' | center(5)
d | tojson
nested | tojson
q | tojson
u | tojson
html | tojson
u | tojson(ensure_ascii=true)
'😀' | tojson(ensure_ascii=true)
d | tojson(indent=2)
nested | tojson(indent=4)
[] | tojson(indent=2)
{} | tojson(indent=2)
[[], {}] | tojson(indent=1)
d | tojson(separators=(',', ':'))
d | tojson(indent=2, separators=(', ', ' : '))
{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true)
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
(1, 2) | tojson
none | tojson
true | tojson
1.0 | tojson
1e20 | tojson
missing | tojson
'a' | nope
-1 | abs
- 1 | abs
1 + 2 | float
'a' ~ 'b' | upper
a is defined
missing is defined
missing is not defined
not missing is defined
missing is undefined
d.missing is defined
n is none
a is none
a is number
t is number
f is float
a is integer
t is integer
t is boolean
s is string
l is string
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
5 is sequence
l is iterable
s is iterable
5 is iterable
none is iterable
missing is iterable
t is true
1 is true
false is false
0 is false
a is odd
4 is even
9 is divisibleby 3
9 is divisibleby(4)
a is eq 7
a is equalto 8
a is ne 7
a is gt 3
a is lt 3
a is ge 7
a is le 6
a is in [7]
a is sameas 7
'abc' is lower
'ABC' is upper
range is callable
s is callable
s.upper is callable
'upper' is filter
'nope' is filter
'odd' is test
a is nope
a is number and s is string
not a is string
a is defined and missing is undefined
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(0) | list
range(1, 2, 0)
range(10000000)
dict(a=1, b=2)
dict({'x': 1}, y=2)
dict([('a', 1)])
dict(a=1).a
namespace(a=1).a
namespace(a=1).b is defined
s.nope()
nope()
5()
s.upper(1)
(l | length) - 1
[1, 2][0] + [3][0]
{'a': {'b': 1}}.a.b
"%s" % (1, 2)
a.b
'a' if missing else 'b'
missing == missing
missing == none
missing in [1]
'x' in missing
1 in none
1 in 'abc'
[] is defined
{} == {}
[1, [2]] == [1, [2]]
1 if 2 in [1, 2] else 3
[1, 2,]
{'a': 1,}
(1, 2,)
d.items() | list
d.x.y is defined
u[2:] | upper
9223372036854775807
-9223372036854775807 - 1
s.upper() | attr('foo') is defined
l.append(4)
""".strip("\n").split("\n")

TEMPLATES = [
    "",
    "plain",
    "plain\n",
    "plain\n\n",
    "a\r\nb\rc\n",
    "{# c #}x",
    "a {#- c -#} b",
    "{# c #}\nx",
    "  {# c #}\n  x",
    "{% if t %}\nx\n{% endif %}\ny\n",
    "  {% if t %}\n  x\n  {% endif %}\n  y",
    "  {%+ if t %}\n  x\n  {%+ endif %}\n  y",
    "  {% if t +%}\n  x\n  {% endif +%}\n  y",
    "a  {%- if t -%}  \n x \n {%- endif -%}  b",
    "a {{- 1 -}} b",
    "a\n {{ 1 }}\n b",
    "{{ 1 }}\n{{ 2 }}\n",
    "x  {% if t %}y{% endif %}  z",
    "\n  {% if t %}\n\n  y{% endif %}",
    "{% raw %}{{ a }} {% if %}{% endraw %}",
    "a {%- raw -%} {{ x }} {%- endraw -%} b",
    "{% raw %}\n x\n{% endraw %}\ny",
    "{{ '{{' }} {{ '%}' }} {{ \"}}\" }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {}} }}",
    "{{ 1,2 }}",
    "{{ }}",
    "{{ 1 ",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ ] }}",
    "{{ 1 2 }}",
    "{{ 'abc }}",
    "{% if %}x{% endif %}",
    "{% if t %}x",
    "{% endif %}",
    "{% nope %}",
    "{% for x in l %}",
    "{# never",
    "{{ a ? b }}",
    "{% if a == 7 %}seven{% elif a == 8 %}eight{% else %}other{% endif %}",
    "{% if a == 8 %}eight{% elif a == 7 %}seven{% else %}other{% endif %}",
    "{% if n %}x{% else %}{% if t %}y{% endif %}{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
    "{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in e %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in none %}x{% endfor %}",
    "{% for x in 5 %}x{% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }},{% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}",
    "{% for c in u %}{{ c }}|{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% break %}",
    "{% for x in [1, 2] %}{% for y in [1, 2] %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}"
    "{{ loop.index }}{% endfor %}",
    "{% for x in tree recursive %}{{ x.n }}[{{ loop(x.c) }}]{{ loop.depth }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{% endfor %}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set d.x = 5 %}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x, y = 1 %}",
    "{% set x %}a{{ a }}{% endset %}[{{ x }}]{{ x | length }}",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x = 5 %}{{ x }}{% set x = x + 1 %}{{ x }}",
    "{% set x = [] %}{{ x }}{% set x = x + [1] %}{{ x }}",
    "{% macro f(x, y=2) %}{{ x }}-{{ y }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(y=5, x=4) }}",
    "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f() }}",
    "{% macro f(x) %}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(x) %}{% endmacro %}{{ f(z=2) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, z=3) }}",
    "{% macro f(x) %}{{ a }}{{ x }}{% set a = 9 %}{{ a }}{% endmacro %}{{ f(1) }}{{ a }}",
    "{% macro fact(x) %}{% if x > 1 %}{{ x }}*{{ fact(x - 1) }}{% else %}1{% endif %}{% endmacro %}"
    "{{ fact(4) }}",
    "{% macro f(x, y=x + 1) %}{{ y }}{% endmacro %}{{ f(1) }}",
    "{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}"
    "{% call wrap('b') %}in {{ a }}{% endcall %}",
    "{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}"
    "{% call(y) each([1, 2]) %}<{{ y }}>{% endcall %}",
    "{% macro f() %}x{% endmacro %}{{ f() | upper }}{{ f() ~ 'y' }}{{ f()|length }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'x': 2}) }}",
    "{{ g() }}{% macro g() %}1{% endmacro %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with %}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}",
    "{% set x = 1 %}{% with x = 2 %}{{ x }}{% endwith %}{{ x }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}",
    "{{ raise_exception('stop: ' ~ a) }}",
    "{% if missing %}x{% else %}y{% endif %}",
    "{% if missing is defined and missing.x %}x{% else %}y{% endif %}",
    "{{ users[0].name }} {{ users[-1]['tags'][1] }}",
    "{% for m in users[::-1] %}{{ m.name }}{% endfor %}",
    "{% for m in users %}{{ m.name }}{{ ', ' if not loop.last }}{% endfor %}",
    "{%- for u in users if u.age == 3 -%}\n{{ u.name }}\n{%- endfor -%}\n",
    "{{ 'a' if a == 7 else 'b' }}{{ ('x' ~ a) if t }}",
    "{%- set x = 'a\nb' -%}{{ x }}",
    "{{ \"a\\nb\" }}",
    "{% set x = {'a': [1, 2, {'b': 'c'}]} %}{{ x.a[2].b }}",
    "{{ s|upper|lower|title }}",
    "{{ (s|upper)[0:2] }}",
    "{{ s.split(' ')[-1].lower() }}",
    "{{- '' -}} \n\n x",
    "{% for x in range(3) %}\n  - {{ x }}\n{% endfor %}\nend",
    "{% for x in range(3) -%}\n  - {{ x }}\n{% endfor -%}\nend",
    "<{% if false %}{% endif %}>",
    "a\n\n{% if t %}\n\nb\n\n{% endif %}\n\nc",
    "{{ a }}{# x #}{{ b }}\n{# y #}\n{{ f }}",
    "{#- x -#}\n\n{{ a }}",
    "{%- if t %} x {%- else %} y {%- endif %} z",
    "\t{%- if t %}\tx{% endif %}",
    "{% set _ = 5 %}{{ _ }}",
    "{% set x = missing %}{{ x is defined }}",
    "{{ {'a': missing} }}",
    "{% for i in range(2) %}{% set last = loop.last %}{% if last %}L{% endif %}{% endfor %}",
    "{{ ([1, 2] | join('-')) ~ '!' }}",
    "{{ [1, 2, 3] | map('string') | join('+') }}",
    "{{ 'x' is string and 'y' or 'z' }}",
    "{{ 1 if true else 2 if true else 3 }}",
    "{{ not 1 == 2 }}",
    "{{ 5 - 3 - 1 }} {{ 2 * 3 % 4 }} {{ 8 / 2 / 2 }}",
    "{{ -a }} {{ +a }} {{ - -a }}",
    "{{ a|string + 'x' }}",
    "{{ '%.2f' | format(f) }} {{ '%03d' % a }}",
    "{{ l|sort|first }} {{ l|sort|last }}",
    "{% if 'a' in ['a', 'b'] and not 'c' in ['a'] %}ok{% endif %}",
    "{% if l %}L{% endif %}{% if e %}E{% endif %}{% if d %}D{% endif %}{% if 0.0 %}Z{% endif %}",
    "{% if 1 %}{{ 'x' }}{%- endif %}  {{- 'y' }}",
]


def make_environment():
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def main():
    out = pathlib.Path(__file__).resolve().parents[2] / "tests/data/chat/jinja_cases.jsonl"
    env = make_environment()
    lines = [{"context": CONTEXT}]
    templates = ["{{ " + e + " }}" for e in EXPRESSIONS] + TEMPLATES
    for template in templates:
        case = {"template": template}
        try:
            case["expected"] = env.from_string(template).render(**json.loads(json.dumps(CONTEXT)))
        except Exception as error:  # whatever Python raises is the answer
            case["error"] = type(error).__name__
        lines.append(case)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{len(templates)} cases")


if __name__ == "__main__":
    main()
