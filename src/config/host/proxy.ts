import { Secret } from '../../server/secrets/secret.ts';
import { ConfigError } from '../config-error.ts';

/** HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Proxy addresses may contain a password, so they are secrets. */
export interface CompiledProxy {
  readonly http: Secret | undefined;
  readonly https: Secret | undefined;
  /** NO_PROXY as given; empty: none. */
  readonly noProxy: string;
}

/** Reads the variables; the lower-case spelling wins, as in curl. */
export function compileProxy(env: NodeJS.ProcessEnv): CompiledProxy {
  return Object.freeze({
    http: proxyAddress(env, 'HTTP_PROXY'),
    https: proxyAddress(env, 'HTTPS_PROXY'),
    noProxy: variable(env, 'NO_PROXY')?.value ?? '',
  });
}

export const NO_PROXY: CompiledProxy = Object.freeze({ http: undefined, https: undefined, noProxy: '' });

function proxyAddress(env: NodeJS.ProcessEnv, upperName: string): Secret | undefined {
  const found = variable(env, upperName);
  if (found === undefined) return undefined;
  const address = found.value.includes('://') ? found.value : `http://${found.value}`;
  const protocol = URL.canParse(address) ? new URL(address).protocol : undefined;
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new ConfigError(
      `${found.name}: the proxy must be an http:// or https:// url, such as http://proxy.example:3128`,
    );
  }
  // The address may appear in messages, the credentials may not.
  const { username, password } = new URL(address);
  return new Secret(address, [password, decoded(password), ...(password === '' ? [username] : [])]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function variable(env: NodeJS.ProcessEnv, upperName: string): { name: string; value: string } | undefined {
  for (const name of [upperName.toLowerCase(), upperName]) {
    const value = env[name]?.trim();
    if (value) return { name, value };
  }
  return undefined;
}
