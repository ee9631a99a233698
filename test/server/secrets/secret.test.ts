import { format, inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { resolveSecret, Secret, type SecretSources } from '../../../src/server/secrets/secret.ts';
import { createSecretSource } from '../../../src/server/secrets/secret-file.ts';

const VALUE = 'sk-do-not-show-me';

describe('a secret', () => {
  const secret = new Secret(VALUE);

  it('is returned by reveal()', () => {
    expect(secret.reveal()).toBe(VALUE);
  });

  it.each<[string, string]>([
    ['a template', `${secret}`],
    ['JSON', JSON.stringify({ secret })],
    ['inspect', inspect({ secret }, { depth: 9, showHidden: true })],
    ['format', format('%s %o %j', secret, secret, secret)],
    ['its keys', JSON.stringify([...Object.keys(secret), ...Object.values(secret)])],
    ['a structured clone', inspect(structuredClone(secret))],
  ])('does not appear in %s', (_, shown) => {
    expect(shown).not.toContain('sk-');
  });

  it('is shown as a placeholder', () => {
    expect(`${secret} ${JSON.stringify(secret)} ${inspect(secret)}`).toBe('[secret] "[secret]" [secret]');
  });
});

describe('a reference', () => {
  const files: Record<string, string> = {
    '/key': `${VALUE}\n`,
    '/crlf': `${VALUE}\r\n`,
    '/empty': '\n',
    '/lines': 'a\nb\n',
  };
  const read: SecretSources = {
    env: { KEY: VALUE, EMPTY: '', BLANK: '  \n' },
    readFile: (path) => {
      const text = files[path];
      if (text === undefined) throw Object.assign(new Error(`${path}: not there`), { code: 'ENOENT' });
      return text;
    },
  };

  it.each([
    ['env:KEY', VALUE],
    ['file:/key', VALUE],
    ['file:/crlf', VALUE],
    ['file:/lines', 'a\nb'],
  ])('%s is resolved [config.secret.reference]', (reference, value) => {
    expect(resolveSecret(reference, read).reveal()).toBe(value);
  });

  it.each([
    ['env:NOPE', 'env:NOPE: the environment variable is not set'],
    ['env:EMPTY', 'env:EMPTY: the environment variable is empty'],
    ['env:BLANK', 'env:BLANK: the environment variable is empty'],
    ['file:/nope', 'file:/nope: the file cannot be read (ENOENT)'],
    ['file:/empty', 'file:/empty: the file is empty'],
  ])('%s is an error that names it [config.secret.reference]', (reference, message) => {
    expect(() => resolveSecret(reference, read)).toThrow(expect.objectContaining({ name: 'SecretError', message }));
  });

  it('does not resolve inherited properties as variables [config.secret.reference]', () => {
    expect(() => resolveSecret('env:constructor', { env: {}, readFile: () => '' })).toThrow('is not set');
    const policy = { mode: 'listed', names: ['constructor'], paths: [], backendKeyNames: [] } as const;
    expect(createSecretSource(policy, {}).variables.get('constructor')).toBeUndefined();
  });

  it.each([VALUE, '', 'env:', `env:${VALUE}`, 'file:', 'ENV:KEY', ' env:KEY'])(
    '%j is no reference; the error says what is, and does not repeat it [config.secret.reference]',
    (literal) => {
      const attempt = () => resolveSecret(literal, read);
      expect(attempt).toThrow('must be a reference, env:NAME or file:PATH');
      expect(attempt).not.toThrow(VALUE);
    },
  );
});
