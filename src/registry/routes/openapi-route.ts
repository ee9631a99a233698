import { openApiDocument } from '../../server/http/openapi.ts';
import type { Route } from './http-listener.ts';

const about = {
  title: 'spear-sms',
  description:
    'Runs and tasks of a registry; nodes serve the same API. docs/registry-protocol.md describes the other routes.',
};

/** The description of those routes that have one: for anybody. */
export function openApiRoute(routes: readonly Route[]): Route {
  let document: string | null = null;
  return {
    method: 'GET',
    path: '/openapi.json',
    needs: 'anybody',
    run: async () => {
      const described = routes.flatMap(({ doc, ...route }) => (doc === undefined ? [] : [{ ...route, doc }]));
      document ??= JSON.stringify(openApiDocument(about, described));
      return { status: 200, headers: { 'content-type': 'application/json' }, body: document };
    },
  };
}
