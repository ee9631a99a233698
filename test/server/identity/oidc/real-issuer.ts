import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface RealIssuer {
  readonly issuer: string;
  /** Sets the user of the following logins. */
  become(user: string): Promise<void>;
  end(): Promise<void>;
}

export async function startRealIssuer(): Promise<RealIssuer> {
  const script = fileURLToPath(new URL('issuer-process.ts', import.meta.url));
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  const line = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const first = await Promise.race([line, exited.then(() => null)]);
  if (first === null) throw new Error('the issuer ended before it was ready');
  const issuer = String(first[0]);
  return {
    issuer,
    become: async (user) => {
      await (await fetch(`${issuer}/as/${user}`)).arrayBuffer();
    },
    end: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** A browser: follows redirects and stores cookies, up to a URL with a fragment or one where it stops. */
export async function browse(
  address: string,
  stopsAt: (next: URL) => boolean = ({ hash }) => hash !== '',
): Promise<{ readonly url: URL; readonly status: number; readonly text: string }> {
  const cookies = new Map<string, string>();
  let at = new URL(address);
  for (let hops = 0; hops < 20; hops++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
    const text = await response.text();
    for (const each of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    const next = location === null ? null : new URL(location, at);
    if (next === null || stopsAt(next)) return { url: next ?? at, status: response.status, text };
    at = next;
  }
  throw new Error('too many redirects');
}
