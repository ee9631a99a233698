import { describe, expect, it } from 'vitest';
import {
  mayReferToFile,
  mayReferToVariable,
  modelKeyNames,
  parseAuthRef,
  type ReferenceLookup,
  type ReferencePolicy,
  referencedNames,
  resolveReferences,
} from '../../../src/server/secrets/references.ts';
import { sampleRecord } from '../records/server-samples.ts';

const ref = (inner: string) => `\${ENV:${inner}}`;

function lookup(variables: Record<string, string>, refused: string[] = []): ReferenceLookup {
  return { allows: (name) => !refused.includes(name), get: (name) => variables[name] };
}

describe('resolveReferences', () => {
  it.each([
    ['a text without any', 'plain $HOME {x}', 'plain $HOME {x}'],
    ['one', ref('A'), 'alpha'],
    ['several among text', `<${ref('A')}|${ref('B')}|${ref('A')}>`, '<alpha|beta|alpha>'],
    ['a variable that is set, before its default', ref('A:-x'), 'alpha'],
    ['a default', ref('NONE:-x y'), 'x y'],
    ['an empty default', `[${ref('NONE:-')}]`, '[]'],
    ['a variable that is set to nothing, before its default', `[${ref('EMPTY:-x')}]`, '[]'],
    ['a variable that is set to nothing', `[${ref('EMPTY')}]`, '[]'],
    ['a default with a dash and colons', ref('NONE:-a:-b'), 'a:-b'],
    ['what a variable holds only once', ref('NESTED'), ref('A')],
  ])('resolves %s', (_what, value, expected) => {
    const variables = { A: 'alpha', B: 'beta', EMPTY: '', NESTED: ref('A') };
    expect(resolveReferences(value, lookup(variables))).toBe(expected);
  });

  it('names the first missing variable', () => {
    expect(resolveReferences(`${ref('A')}${ref('B')}`, lookup({ A: '1' }))).toEqual({ missing: 'B' });
  });

  it('refuses a forbidden variable, whether it is set or has a default', () => {
    expect(resolveReferences(ref('KEY'), lookup({ KEY: 'secret' }, ['KEY']))).toEqual({ refused: 'KEY' });
    expect(resolveReferences(ref('KEY:-x'), lookup({}, ['KEY']))).toEqual({ refused: 'KEY' });
  });
});

describe('the names in a record', () => {
  it('are found in variables, headers, the url and auth_ref', () => {
    const stdio = sampleRecord('a', { stdio: { command: 'x', env: { A: `${ref('ONE')}${ref('TWO:-x')}` } } });
    expect([...referencedNames(stdio)]).toEqual(['ONE', 'TWO']);
    const http = sampleRecord('a', {
      transport: 'streamable_http',
      stdio: null,
      http: { url: `http://${ref('HOST')}/`, headers: { a: ref('HEADER') }, auth_ref: 'env:TOKEN' },
    });
    expect([...referencedNames(http)].sort()).toEqual(['HEADER', 'HOST', 'TOKEN']);
  });
});

describe('auth_ref', () => {
  it.each([
    ['env:NAME', { kind: 'env', name: 'NAME' }],
    ['file:/run/secrets/token', { kind: 'file', path: '/run/secrets/token' }],
    ['file:', null],
    ['env:', null],
    ['env:A B', null],
    ['NAME', null],
  ])('%s', (text, expected) => {
    expect(parseAuthRef(text)).toEqual(expected);
  });
});

describe('what records may refer to', () => {
  const listed: ReferencePolicy = {
    mode: 'listed',
    names: ['GITLAB_TOKEN'],
    paths: ['/run/secrets/mcp/', '/etc/one-token'],
    backendKeyNames: ['MCP_MODEL_KEY', 'Company_Key'],
  };
  const owned: ReferencePolicy = { ...listed, mode: 'user_owned', names: [] };

  it.each<[string, boolean, boolean]>([
    ['MCP_TOKEN', true, true],
    ['MCP_', true, true],
    ['GITLAB_TOKEN', true, true],
    ['HOME', false, true],
    ['mcp_token', false, true],
    ['OPENAI_API_KEY', false, false],
    ['openai_api_key', false, false],
    ['ANTHROPIC_API_KEY', false, false],
    ['MCP_MODEL_KEY', false, false],
    ['COMPANY_KEY', false, false],
  ])('%s: of a registry %s, of the user %s [record.reference_policy]', (name, byRegistry, byUser) => {
    expect(mayReferToVariable(name, listed)).toBe(byRegistry);
    expect(mayReferToVariable(name, owned)).toBe(byUser);
  });

  it('includes a model key only if the config names it [record.reference_policy]', () => {
    for (const name of modelKeyNames) {
      expect(mayReferToVariable(name, listed)).toBe(false);
      expect(mayReferToVariable(name, { ...listed, names: [name] })).toBe(true);
    }
  });

  it.each<[string, boolean]>([
    ['/run/secrets/mcp/token', true],
    ['/run/secrets/mcp/deep/token', true],
    ['/etc/one-token', true],
    ['/run/secrets/mcp/', false],
    ['/run/secrets/mcp/../db', false],
    ['/run/secrets/mcp/./token', false],
    ['/run/secrets/mcp2/token', false],
    ['/etc/one-token2', false],
    ['run/secrets/mcp/token', false],
    ['/etc/passwd', false],
  ])('file %s: %s [record.reference_policy]', (path, allowed) => {
    expect(mayReferToFile(path, listed)).toBe(allowed);
    expect(mayReferToFile(path, owned)).toBe(true);
  });
});
