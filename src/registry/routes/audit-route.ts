import { parseLine } from '../../server/audit/reader.ts';
import { jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import { identityOf, type Route } from '../../server/http/route.ts';
import { mayName } from '../../server/identity/identity.ts';
import { ALL_NAMESPACES, type Identity } from '../../server/records/permissions.ts';

const MAX_LINES = 200;
const MAX_TEXT_CHARS = 200;
const place = /^\d{1,20}:\d{1,15}$/;
const eventName = /^[a-z_.]{1,64}$/;

/** `GET /admin/api/audit?q=&event=&before=&after=&limit=`: lines of the registry's own trail, newest first. */
export function trailRoute(file: string | null): Route {
  return {
    method: 'GET',
    path: '/admin/api/audit',
    needs: 'view',
    async run(call) {
      const { query } = call;
      if (file === null) {
        throw new HttpProblem(
          404,
          'no-audit-log',
          'this registry has no audit log: audit.enabled is off in its config',
        );
      }
      const text = (query.get('q') ?? '').slice(0, MAX_TEXT_CHARS).toLowerCase();
      const event = query.get('event') ?? '';
      const [before, after] = [query.get('before'), query.get('after')];
      const asked = Number(query.get('limit') ?? MAX_LINES);
      for (const given of [before, after]) {
        if (given !== null && !place.test(given))
          throw new HttpProblem(400, 'invalid-body', 'before, after: expected a position in the audit log');
      }
      if (event !== '' && !eventName.test(event))
        throw new HttpProblem(400, 'invalid-body', 'event: expected an event name');
      const mayRead = readableBy(identityOf(call));
      const marked = event === '' ? '' : `"event":"${event}`;
      const { readTrail } = await import('../audit/read-trail.ts');
      const page = await readTrail(file, {
        before,
        after,
        limit: Number.isSafeInteger(asked) && asked > 0 ? Math.min(asked, MAX_LINES) : MAX_LINES,
        wanted: (line) => line.includes(marked) && (text === '' || line.toLowerCase().includes(text)) && mayRead(line),
      });
      return jsonReply(200, page);
    },
  };
}

/** Who is of one namespace reads what was done in it, and by those who are of it. */
function readableBy(identity: Identity): (line: string) => boolean {
  if (identity.namespace === ALL_NAMESPACES) return () => true;
  return (line) => {
    const { namespace, approval_namespace: approval = namespace } = parseLine(line) ?? {};
    return typeof approval === 'string' && mayName(identity, approval);
  };
}
