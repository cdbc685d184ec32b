"""Rewraps comment paragraphs that have a line over LIMIT columns. Usage: rewrap.py ROOT"""
import os,re,sys
LIMIT=120
PRE=re.compile(r'^(\s*)(//[/!]?)( ?)(.*)$')
SPECIAL=re.compile(r'^(\s{1,}|[-*|#>]|\d+\.|```|SAFETY:|\[.*\]:)')
def wrap(lines,indent,mark):
    words=' '.join(lines).split()
    out=[];cur=''
    width=LIMIT-len(indent)-len(mark)-1
    for w in words:
        if cur and len(cur)+1+len(w)>width:
            out.append(cur);cur=w
        else: cur=(cur+' '+w) if cur else w
    if cur: out.append(cur)
    return [f'{indent}{mark} {l}' for l in out]
n=0
for d,ds,fs in os.walk(sys.argv[1]):
    ds[:]=[x for x in ds if x not in('target','.git')]
    for f in fs:
        if not f.endswith('.rs'): continue
        p=os.path.join(d,f)
        src=open(p).read().split('\n')
        out=[];i=0;fence=False;changed=False
        while i<len(src):
            m=PRE.match(src[i])
            if not m: out.append(src[i]);i+=1;fence=False;continue
            ind,mark,_,txt=m.groups()
            if txt.startswith('```'): fence=not fence;out.append(src[i]);i+=1;continue
            if fence or not txt.strip(): out.append(src[i]);i+=1;continue
            if SPECIAL.match(txt) and not re.match(r'^[-*] |^SAFETY:|^\d+\. ',txt): out.append(src[i]);i+=1;continue
            para=[txt];j=i+1
            hang='  ' if re.match(r'^[-*] ',txt) else ''
            while j<len(src):
                k=PRE.match(src[j])
                if not k or k.group(1)!=ind or k.group(2)!=mark: break
                t=k.group(4)
                if not t.strip(): break
                if hang and t.startswith('  ') : para.append(t.strip());j+=1;continue
                if SPECIAL.match(t): break
                if hang: break
                para.append(t);j+=1
            if any(len(l)>LIMIT for l in src[i:j]):
                w=wrap(para,ind,mark)
                if hang: w=[w[0]]+[x.replace(mark+' ',mark+'   ',1) for x in w[1:]]
                out+=w;changed=True;n+=1
            else: out+=src[i:j]
            i=j
        if changed: open(p,'w').write('\n'.join(out))
print(n,'paragraphs')
