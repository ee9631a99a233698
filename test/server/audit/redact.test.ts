import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/base/json.ts';
import {
  ARGUMENT_BOUNDS,
  isOrdinary,
  isSensitiveName,
  redactArguments,
  redactText,
  suspicious,
} from '../../../src/server/audit/redact.ts';
import { cpuMs } from '../../support/cpu-time.ts';

const MARK = '[redacted]';
const secret = 'hunter2-and-more';

describe('names of what must not be seen', () => {
  it.each([
    'password',
    'PASSWORD',
    'userPassword',
    'user_password',
    'db-passwd',
    'pwd',
    'token',
    'access_token',
    'accessToken',
    'next.page.token',
    'AUTH_TOKEN',
    'secret',
    'clientSecret',
    'clientsecret',
    'key',
    'apiKey',
    'api_key',
    'APIKEY',
    'x-api-key',
    'private_key',
    'secret_keys',
    'authorization',
    'Authorization',
    'Proxy-Authorization',
    'auth',
    'cookie',
    'Set-Cookie',
    'credentials',
    'passphrase',
    'sessionId',
    'jwt',
    'otp',
    'pin',
    'signature',
    'connectionString',
  ])('%s is one', (name) => {
    expect(isSensitiveName(name)).toBe(true);
    expect(redactArguments({ [name]: secret })).toEqual({ [name]: MARK });
  });

  it.each([
    'path',
    'message',
    'author',
    'keyboard',
    'keywords',
    'monkey',
    'max_tokens',
    'tokenCount',
    'pinned',
    'compass',
  ])('%s is none', (name) => {
    expect(isSensitiveName(name)).toBe(false);
    expect(redactArguments({ [name]: 'plain' })).toEqual({ [name]: 'plain' });
  });
});

describe('arguments', () => {
  it.each<[string, JsonValue | undefined, unknown]>([
    ['nothing', {}, {}],
    ['plain values', { path: 'a.txt', n: 1.5, b: true, x: null }, { path: 'a.txt', n: 1.5, b: true, x: null }],
    ['a number with a telling name', { pin: 1234, max_tokens: 10 }, { pin: MARK, max_tokens: 10 }],
    ['a truth value with a telling name', { token: true, secret: null }, { token: true, secret: null }],
    ['something inside', { a: { b: [{ password: secret }] } }, { a: { b: [{ password: MARK }] } }],
    ['an object with a telling name', { credentials: { user: 'u', x: [secret] } }, { credentials: MARK }],
    [
      'names and values apart',
      {
        headers: [
          { name: 'Authorization', value: secret },
          { key: 'X-Id', value: '7' },
        ],
      },
      {
        headers: [
          { name: 'Authorization', value: MARK },
          { key: MARK, value: '7' },
        ],
      },
    ],
    ['a command line', { args: ['--token', secret, '-v'] }, { args: ['--token', MARK, '-v'] }],
    ['a command line with =', { args: [`--api-key=${secret}`] }, { args: [MARK] }],
    ['a key that JavaScript knows', JSON.parse('{"__proto__":"x"}'), JSON.parse('{"__proto__":"x"}')],
    ['a key that is a credential', { ghp_0123456789abcdefghij: 1 }, { [MARK]: 1 }],
    ['no object: a text', secret, null],
    ['no object: a list', [secret], null],
    ['no object: null', null, null],
    ['no JSON at all', undefined, null],
  ])('%s', (_, value, expected) => {
    expect(redactArguments(value)).toEqual(expected);
  });

  it('are bounded, whatever they are', () => {
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`k${index}`, 'x'.repeat(10_000)]));
    const deep = JSON.parse(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`) as JsonObject;
    const bushy = (levels: number): JsonValue =>
      levels === 0
        ? 'leaf'
        : Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`k${index}`, bushy(levels - 1)]));
    const bound = 4 * ARGUMENT_BOUNDS.totalChars;
    for (const value of [
      wide,
      deep,
      { list: Array(100_000).fill('x') },
      bushy(4) as JsonObject,
      { t: 'é'.repeat(1e6) },
    ]) {
      expect(JSON.stringify(redactArguments(value)).length).toBeLessThan(bound);
    }
    expect(redactArguments({ list: Array(40).fill(1) })?.list).toEqual([...Array(32).fill(1), '…8 more']);
    expect(Object.keys(redactArguments(wide) ?? {}).length).toBe(ARGUMENT_BOUNDS.keys + 1);
  });

  it('never hold the value of a sensitive name, wherever it is', () => {
    const canary = 'CANARY-7d1f';
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom('password', 'api_key', 'authToken', 'Cookie'), (value, name) => {
        const holding = { a: [{ [name]: canary }], b: { c: { [name]: [canary, value as JsonValue] } }, [name]: canary };
        expect(JSON.stringify(redactArguments(holding))).not.toContain(canary);
      }),
    );
  });
});

describe('a text', () => {
  it.each<[string, string]>([
    ['curl -H "Authorization: Bearer abc.def-123" http://x', `curl -H "Authorization: Bearer ${MARK}" http://x`],
    ['psql postgres://user:pa55@db/x', `psql postgres://user:${MARK}@db/x`],
    ['export API_KEY=abc123 && run', `export API_KEY=${MARK} && run`],
    ['{"password": "abc", "user": "u"}', `{"password": "${MARK}", "user": "u"}`],
    ['login --password hunter2 --user u', `login --password ${MARK} --user u`],
    ['my key is sk-abcdefgh12345678, thanks', `my key is ${MARK}, thanks`],
    ['use Q29uZmlkZW50aWFsMTIzNDU2Nzg5MFRva2Vu now', `use ${MARK} now`],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----', MARK],
    ['the secret garden, a token of thanks', 'the secret garden, a token of thanks'],
    ['/home/user/projects/notes/2026/report.md', '/home/user/projects/notes/2026/report.md'],
    ['', ''],
  ])('%j', (text, expected) => {
    expect(redactText(text)).toBe(expected);
  });

  it('that is shown as it is has nothing that a closer look would find', () => {
    const parts = [
      ...['sk-', 'ghp_', 'xoxb-', 'AKIA', 'eyJ', 'a1b2c3d4', 'Q29uZm', 'password', 'tok', 'en', 'api', 'key', 'secret'],
      ...[
        'bearer',
        'Basic',
        '--',
        '-',
        '-----BEGIN',
        ' ',
        '\n',
        '"',
        '@',
        '/',
        '//',
        '.',
        '+',
        '?',
        '&',
        'x',
        'a.b',
        '…',
      ],
    ];
    // Behind an assignment every text is looked at closely.
    const before = 'a=b ';
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 12 }), (words) => {
        const text = words.join('');
        const closely = redactText(`${before}${text}`);
        if (redactText(text) === text) expect(closely).toBe(`${before}${text}`);
      }),
      { numRuns: 5_000 },
    );
  });

  it('is cut, and a secret at the cut does not show its beginning', () => {
    expect(redactText('word '.repeat(100))).toBe(`${'word '.repeat(100).slice(0, 256)}…(500)`);
    const key = `sk-${'a1b2c3d4'.repeat(8)}`;
    for (let before = 900; before < 1_100; before += 3) {
      expect(redactText(`${'x '.repeat(before / 2)}${key}`)).not.toContain('sk-');
      expect(redactText(`${'password=z '.repeat(before / 11)}${key}`)).not.toContain('sk-');
    }
    expect(redactText('a'.repeat(5_000))).toBe(`${MARK}…(5000)`);
  });

  it('takes no longer than its bound however it is made', () => {
    const took = cpuMs(() => {
      for (const part of ['a', 'a:', '-', '--a', 'token ', 'a://', ':', 'password=', ' ', '"'])
        redactText(part.repeat(1e6));
    });
    expect(took).toBeLessThan(5_000);
  });
});

describe('the walk that spares ordinary texts a look', () => {
  const word = fc.constantFrom(
    ...['pass', 'pwd', 'SECRET', 'ToKeN', 'key', 'Credential', 'authorization', 'cookie', 'bearer', 'Basic', '-----'],
    ...['=', ':', '$', 'abcdefghijk', 'abcdefghij', '0+/_=.-ABCD', '\u017f', '\u212aey', 'pa', 'ss', ' '],
  );
  const pieces = fc.array(fc.oneof(word, fc.string({ unit: 'grapheme', maxLength: 4 })), { maxLength: 12 });

  it('never calls ordinary what a look would find', () => {
    fc.assert(
      fc.property(pieces, (parts) => {
        const text = parts.join('');
        if (suspicious.test(text)) expect(isOrdinary(text)).toBe(false);
      }),
      { numRuns: 5_000 },
    );
  });

  it.each(['', 'It is 21 degrees in Lisbon, with a light wind.', 'Größe 5 – naïve café', 'echo this, please'])(
    'knows %j for ordinary',
    (text) => expect(isOrdinary(text)).toBe(true),
  );
});
