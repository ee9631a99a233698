import { hasControlCharacter } from '../../base/text-problem.ts';
import { HttpProblem } from './problem.ts';

/** What tells one route from another. The variable parts of its path are `{name}`. */
interface Addressed {
  readonly method: string;
  readonly path: string;
}

interface Pattern<R> {
  readonly route: R;
  readonly parts: readonly { readonly text: string; readonly name: string | null }[];
}

/** Routes by path and method; their patterns are read once. */
export class RouteTable<R extends Addressed> {
  /** By how many parts a path has. */
  readonly #patterns = new Map<number, Pattern<R>[]>();

  constructor(routes: readonly R[]) {
    for (const route of routes) {
      const parts = route.path.split('/').map((text) => ({ text, name: /^\{(\w+)\}$/.exec(text)?.[1] ?? null }));
      const alike = this.#patterns.get(parts.length) ?? [];
      this.#patterns.set(parts.length, [...alike, { route, parts }]);
    }
  }

  /** The route, and the variable parts of the path, decoded. @throws HttpProblem where there is none */
  find(method: string, path: string): { readonly route: R; readonly params: Record<string, string> } {
    const given = path.split('/');
    const wanted = method === 'HEAD' ? 'GET' : method;
    const others = new Set<string>();
    for (const { route, parts } of this.#patterns.get(given.length) ?? []) {
      const params = matched(parts, given);
      if (params === null) continue;
      if (route.method === wanted) return { route, params };
      others.add(route.method);
    }
    if (others.size === 0) throw new HttpProblem(404, 'no-such-path', 'no such path; see /openapi.json');
    const allow = [...others].join(', ');
    throw new HttpProblem(405, 'method-not-allowed', `method not allowed; this path allows ${allow}`, {
      headers: { allow },
    });
  }
}

function matched(parts: Pattern<unknown>['parts'], given: readonly string[]): Record<string, string> | null {
  const params: Record<string, string> = {};
  for (const [index, { text, name }] of parts.entries()) {
    const found = given[index] as string;
    if (name === null) {
      if (text !== found) return null;
      continue;
    }
    try {
      params[name] = decodeURIComponent(found);
    } catch {
      return null;
    }
    if (params[name] === '' || hasControlCharacter(params[name])) return null;
  }
  return params;
}
