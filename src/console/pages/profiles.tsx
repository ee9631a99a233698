import type { McpProfile } from '../../server/records/profile.ts';
import { linkTo, useResource } from '../hooks.ts';
import { Empty, Failure, Loading, PageHead } from '../parts.tsx';
import { clock, counted, UntrustedText } from '../text.tsx';

type ProfileJson = McpProfile & { readonly origin: string };

/** Profiles: named selections of servers and tools. */
export function Profiles() {
  const { value, error, again } = useResource<{ profiles: readonly ProfileJson[] }>('/admin/api/mcp/profiles', [
    'profiles',
  ]);
  return (
    <>
      <PageHead title="Profiles" />
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value?.profiles.length === 0 ? (
        <Empty title="No profiles yet">
          <p>
            A profile is a named selection of servers and tools. Tasks refer to it with <code>"mcp.profile"</code>.
            Write a profile file and store it with <code>spear profiles apply FILE</code>.
          </p>
        </Empty>
      ) : null}
      <ul class="tiles">
        {value?.profiles.map((profile) => (
          <li key={profile.name}>
            <h2>
              <UntrustedText text={profile.name} chars={80} />
            </h2>
            <p>
              <UntrustedText text={profile.description || 'no description'} chars={400} />
            </p>
            <dl>
              <dt>Servers</dt>
              <dd>
                {profile.server_ids.length === 0
                  ? 'none selected by id'
                  : profile.server_ids.slice(0, 20).map((id) => (
                      <a key={id} class="tag" href={linkTo('servers', id)}>
                        <UntrustedText text={id} chars={80} />
                      </a>
                    ))}
                {profile.server_ids.length > 20 ? ` and ${profile.server_ids.length - 20} more` : ''}
              </dd>
              <dt>Tags</dt>
              <dd>
                <UntrustedText text={profile.server_tags.join(', ') || 'none'} />
              </dd>
              <dt>Tools</dt>
              <dd>
                <UntrustedText text={toolsText(profile)} />
              </dd>
            </dl>
            <p class="muted">
              {clock(profile.updated_at_ms)}, revision {profile.mod_revision}, from{' '}
              <UntrustedText text={profile.origin || 'the API'} chars={80} />
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

function toolsText({ tool_allowlist: allow, tool_denylist: deny, allowed_tools: perServer }: McpProfile): string {
  const narrowed = Object.keys(perServer).length;
  return [
    allow === null ? 'all tools that the servers allow' : allow.length === 0 ? 'none' : `only ${allow.join(', ')}`,
    ...(deny.length === 0 ? [] : [`not ${deny.join(', ')}`]),
    ...(narrowed === 0 ? [] : [`${counted(narrowed, 'server')} restricted further`]),
  ].join('; ');
}
